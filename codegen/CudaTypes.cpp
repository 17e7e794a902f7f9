//===- CudaTypes.cpp - the C++ types of emitted code ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CudaTypes.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace attn;

std::string cuda::getScalarType(Type type) {
  if (type.isIndex() || type.isSignlessInteger(32))
    return "int";
  if (type.isSignlessInteger(1))
    return "bool";
  if (type.isSignlessInteger(8))
    return "int8";
  if (type.isSignlessInteger(16))
    return "int16";
  if (type.isSignlessInteger(64))
    return "int64";
  if (type.isBF16())
    return "bf16";
  if (type.isF16())
    return "f16";
  if (type.isF32())
    return "float";
  if (type.isF64())
    return "double";
  return "";
}

std::string cuda::getElementType(Type type) { return type.isIndex() ? "int64" : getScalarType(type); }

unsigned cuda::getIntegerWidth(Type type) { return type.isIndex() ? 32 : type.getIntOrFloatBitWidth(); }

static StringRef getPipelineName(tile::TileUse use) {
  switch (use) {
  case tile::TileUse::multiplied:
    return "Pipeline";
  case tile::TileUse::stored:
    return "StoredPipeline";
  case tile::TileUse::loaded:
    return "LoadedPipeline";
  }
  llvm_unreachable("unknown use");
}

std::string cuda::getType(Type type) {
  return TypeSwitch<Type, std::string>(type)
      .Case([](MemRefType memref) -> std::string {
        std::string element = getElementType(memref.getElementType());
        if (element.empty())
          return "";
        return llvm::formatv("Tensor<{0}, {1}>", element, memref.getRank());
      })
      .Case([](tile::SharedType tile) -> std::string {
        std::string element = getScalarType(tile.getElementType());
        if (tile.isRing())
          return llvm::formatv("SharedTileRing<{0}, {1}, {2}, {3}>", element, tile.getShape()[1],
                               tile.getShape()[2], tile.getShape()[0]);
        if (!tile.is2D())
          return llvm::formatv("SharedVector<{0}, {1}>", element, tile.getShape()[0]);
        return llvm::formatv("SharedTile<{0}, {1}, {2}>", element, tile.getShape()[0], tile.getShape()[1]);
      })
      .Case([](tile::PanelsType tile) -> std::string {
        return llvm::formatv("PanelTile<{0}, {1}, {2}>", getScalarType(tile.getElementType()),
                             tile.getShape()[0], tile.getShape()[1]);
      })
      .Case([](tile::PipelineType pipeline) -> std::string {
        ArrayRef<int64_t> shape = pipeline.getShape();
        return llvm::formatv("{0}<{1}, {2}, {3}, {4}, {5}>", getPipelineName(pipeline.getUse()),
                             getScalarType(pipeline.getElementType()), shape[0], shape[1], shape[2],
                             pipeline.getConsumers());
      })
      .Case([](tile::DivisorType) { return "Divisor"; })
      .Case([](tile::WorkQueueType queue) -> std::string {
        return llvm::formatv("WorkQueue<{0}>", queue.getWarps());
      })
      .Case([](tile::FragmentType fragment) -> std::string {
        std::string element = getScalarType(fragment.getElementType());
        ArrayRef<int64_t> shape = fragment.getShape(), warps = fragment.getWarps();
        switch (fragment.getLayout()) {
        case tile::Layout::thread:
          return element;
        case tile::Layout::rows:
          return llvm::formatv("RowVector<{0}, {1}, {2}, {3}>", element, shape[0], warps[0], warps[1]);
        case tile::Layout::columns:
          return llvm::formatv("ColumnVector<{0}, {1}, {2}>", element, shape[0], warps[1]);
        case tile::Layout::operand_a:
          return llvm::formatv("Operand<{0}, {1}, {2}, {3}>", element, shape[0], shape[1], warps[0]);
        case tile::Layout::accumulator:
          return llvm::formatv("Fragment<{0}, {1}, {2}, {3}, {4}>", element, shape[0], shape[1], warps[0],
                               warps[1]);
        }
        llvm_unreachable("unknown layout");
      })
      .Default([](Type scalar) { return getScalarType(scalar); });
}
