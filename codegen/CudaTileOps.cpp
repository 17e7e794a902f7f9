//===- CudaTileOps.cpp - attn_tile operations as calls of the device headers -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CudaTypes.h"
#include "codegen/FunctionPrinter.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cuda;

std::optional<int64_t> cuda::getSharedOffset(Value tile) {
  while (auto reuse = tile.getDefiningOp<tile::SharedReuseOp>())
    tile = reuse.getSource();
  if (auto alloc = tile.getDefiningOp<tile::SharedAllocOp>())
    return alloc.getOffset();
  return std::nullopt;
}

/// The columns that a tensor has of a tile.
static int64_t getColumns(Value memref) { return cast<MemRefType>(memref.getType()).getShape().back(); }

static std::string getRowStride(const std::string &tensor, Value memref, int64_t dimension) {
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  if (succeeded(type.getStridesAndOffset(strides, offset)) && dimension == type.getRank() - 1 &&
      strides[dimension] == 1)
    return "1";
  return tensor + ".stride(" + llvm::utostr(dimension) + ")";
}

std::string FunctionPrinter::getRows(Value memref, ValueRange indices, Value rows, Value group) {
  std::string tensor = getText(memref);
  int64_t dimension = static_cast<int64_t>(indices.size()) - 1;
  std::string stride = getRowStride(tensor, memref, dimension);
  if (!group)
    return getElementPlace(memref, indices).text + ", " + stride + ", " + getText(rows);
  return getElementPlace(memref, indices.drop_back()).text + ", PackedRows{" + getText(group) + ", " +
         getText(indices.back()) + ", " + getRowStride(tensor, memref, dimension - 1) + ", " + stride +
         "}, " + getText(rows);
}

/// The threads of a copy.
static StringRef getThreads(bool byWarp) { return byWarp ? "32" : "kThreads"; }

/// Template arguments of a copy: threads, columns, and the alignment where it is not 16 bytes.
static std::string getCopyParameters(Value memref, bool aligned, bool byWarp = false) {
  std::string text = (getThreads(byWarp) + ", " + llvm::itostr(getColumns(memref))).str();
  if (!aligned)
    text +=
        ", /*alignment*/ " + llvm::utostr(cast<MemRefType>(memref.getType()).getElementTypeBitWidth() / 8);
  return "<" + text + ">";
}

/// The function of a map or an any; what it takes by reference are the elements from number `firstOut` on.
void FunctionPrinter::printElementFunction(Operation *op, unsigned firstOut,
                                           function_ref<void(Block &)> printEnd) {
  Block &body = op->getRegion(0).front();
  unsigned numIndices = tile::getNumIndexArgs(op);
  os << "[&](";
  llvm::ListSeparator comma;
  for (BlockArgument argument : body.getArguments())
    os << StringRef(comma) << getScalarType(argument.getType()) << ' '
       << (argument.getArgNumber() >= numIndices + firstOut ? "&" : "") << names.getName(argument);
  os << ") {\n";
  os.indent();
  printStatements(body);
  printEnd(body);
  os.unindent();
  os << "}, " << getArguments(op->getOperands());
}

void FunctionPrinter::printMap(tile::MapOp op) {
  os << (op.getRelative() ? "map</*relative*/ true>(" : "map(");
  printElementFunction(op, op.getIns().size(), [&](Block &body) {
    SmallVector<Assignment> assignments;
    for (auto [argument, value] :
         llvm::zip(body.getArguments().take_back(op.getOuts().size()), body.getTerminator()->getOperands()))
      assignments.push_back({argument, value});
    printAssignments(assignments);
  });
  os << ");\n";
}

void FunctionPrinter::printAny(tile::AnyOp op) {
  os << "const bool " << names.getName(op.getHolds()) << " = any(";
  printElementFunction(op, op.getIns().size(), [&](Block &body) {
    os << "return " << getText(body.getTerminator()->getOperand(0)) << ";\n";
  });
  os << ");\n";
}

void FunctionPrinter::printMma(tile::MmaOp op) {
  auto operand = [&](Value value, bool transposed) {
    return transposed ? "transpose(" + getText(value) + ")" : getText(value);
  };
  auto getFunction = [](tile::Atom atom) -> StringRef {
    switch (atom) {
    case tile::Atom::fma:
      return "mma_fma";
    case tile::Atom::mma_sync:
      return "mma";
    case tile::Atom::mma_sync_tf32:
      return "mma_tf32";
    case tile::Atom::wgmma:
      return "mma_async";
    }
    llvm_unreachable("unknown atom");
  };
  os << getFunction(op.getAtom());
  if (op.getAtom() == tile::Atom::wgmma)
    os << "</*overwrite*/ " << (op.getOverwrite() ? "true" : "false") << '>';
  os << '(' << getText(op.getAcc()) << ", " << operand(op.getA(), op.getTransposeA()) << ", "
     << operand(op.getB(), op.getTransposeB()) << ");\n";
}

static StringRef getOperation(tile::Combine combine) {
  switch (combine) {
  case tile::Combine::add:
    return "Sum";
  case tile::Combine::max:
    return "Max";
  }
  llvm_unreachable("unknown combination");
}

std::string FunctionPrinter::getScratchArgument(Value scratch) {
  return scratch ? ", " + getText(scratch) + ".data()" : "";
}

void FunctionPrinter::printRowReduce(tile::RowReduceOp op) {
  os << (op.getPartial() ? "lane_reduce<" : "row_reduce<") << getOperation(op.getCombine())
     << (op.getInterleaved() ? ", /*interleaved*/ true>(" : ">(") << getText(op.getRows()) << ", "
     << getText(op.getSource()) << getScratchArgument(op.getScratch()) << ");\n";
}

bool FunctionPrinter::printTileOp(Operation *op) {
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case<tile::SharedAllocOp, tile::SharedReuseOp>([&](auto alloc) {
        os << getType(alloc.getTile().getType()) << ' ' << names.getName(alloc.getTile()) << "(shared + "
           << *getSharedOffset(alloc.getTile()) << ");\n";
        return true;
      })
      .Case([&](tile::FragmentAllocOp alloc) {
        os << getType(alloc.getType()) << ' ' << names.getName(alloc.getFragment()) << ";\n";
        return true;
      })
      .Case([&](tile::CopyAsyncOp copy) {
        std::string tensor = getText(copy.getSource());
        os << "copy_async" << getCopyParameters(copy.getSource(), copy.getAligned(), copy.getByWarp()) << '('
           << getText(copy.getTile()) << ", "
           << getRows(copy.getSource(), copy.getIndices(), copy.getRows(), copy.getGroup()) << ");\n";
        return true;
      })
      .Case([&](tile::CopyFiniteOp copy) {
        os << "copy_finite<" << getThreads(copy.getByWarp()) << ", " << getColumns(copy.getSource()) << ">("
           << getText(copy.getTile()) << ", " << getRows(copy.getSource(), copy.getIndices(), copy.getRows())
           << ");\n";
        return true;
      })
      .Case([&](tile::CopyCommitOp) {
        os << "commit_group();\n";
        return true;
      })
      .Case([&](tile::CopyWaitOp wait) {
        os << "wait_group<" << wait.getPending() << ">();\n";
        return true;
      })
      .Case([&](tile::WarpBarrierOp) {
        os << "__syncwarp();\n";
        return true;
      })
      .Case([&](tile::AwaitKernelsOp) {
        os << "await_kernels();\n";
        return true;
      })
      .Case([&](tile::ReleaseKernelsOp) {
        os << "release_kernels();\n";
        return true;
      })
      .Case([&](tile::LoadOperandOp load) {
        os << "load<" << getColumns(load.getSource()) << (load.getAligned() ? ", /*aligned*/ true" : "")
           << ">(" << getText(load.getFragment()) << ", "
           << getRows(load.getSource(), load.getIndices(), load.getRows(), load.getGroup()) << ");\n";
        return true;
      })
      .Case([&](tile::MergeWarpsOp merge) {
        os << "merge_warps(" << getArguments(merge->getOperands().drop_back(2))
           << getScratchArgument(merge.getScratch()) << getScratchArgument(merge.getLseScratch()) << ");\n";
        return true;
      })
      .Case([&](tile::MmaOp mma) {
        printMma(mma);
        return true;
      })
      .Case([&](tile::AddNonFiniteOp add) {
        os << "add_non_finite(" << getArguments(add->getOperands()) << ");\n";
        return true;
      })
      .Case([&](tile::FillOp fill) {
        os << "fill(" << getText(fill.getFragment()) << ", " << getText(fill.getValue()) << ");\n";
        return true;
      })
      .Case([&](tile::MapOp map) {
        printMap(map);
        return true;
      })
      .Case([&](tile::AnyOp any) {
        printAny(any);
        return true;
      })
      .Case([&](tile::ConvertOp convert) {
        os << getText(convert.getTarget()) << " = convert<"
           << getScalarType(convert.getTarget().getType().getElementType()) << ">("
           << getText(convert.getSource()) << ");\n";
        return true;
      })
      .Case([&](tile::RowReduceOp reduce) {
        printRowReduce(reduce);
        return true;
      })
      .Case([&](tile::RowCombineOp combine) {
        os << "all_reduce<" << getOperation(combine.getCombine()) << ">(" << getText(combine.getRows())
           << getScratchArgument(combine.getScratch()) << ");\n";
        return true;
      })
      .Case([&](tile::LoadRowsOp load) {
        os << "load_rows(" << getText(load.getFragment()) << ", "
           << getRows(load.getSource(), load.getIndices(), load.getRows()) << ", "
           << getText(load.getPadding()) << ");\n";
        return true;
      })
      .Case([&](tile::LoadColumnsOp load) {
        os << "load_columns(" << getText(load.getFragment()) << ", " << getText(load.getSource());
        for (Value index : load.getIndices())
          os << ", " << getText(index);
        os << ");\n";
        return true;
      })
      .Case([&](tile::RingSlotOp slot) {
        os << "const auto " << names.getName(slot.getTile()) << " = " << getText(slot.getRing()) << '['
           << getText(slot.getStage()) << "];\n";
        return true;
      })
      .Case([&](tile::LoadSharedOp load) {
        os << "load(" << getText(load.getFragment()) << ", " << getText(load.getTile()) << ");\n";
        return true;
      })
      .Case([&](tile::DivisorOp divisor) {
        os << "const " << getType(divisor.getType()) << ' ' << names.getName(divisor) << '('
           << getText(divisor.getNumber()) << ");\n";
        return true;
      })
      .Case([&](tile::RowDotOp dot) {
        os << "row_dot(" << getText(dot.getRows()) << ", " << getText(dot.getA()) << ", "
           << getText(dot.getB()) << ");\n";
        return true;
      })
      .Case([&](tile::AccumulateOp accumulate) {
        os << names.getName(accumulate.getSum()) << " += " << getText(accumulate.getValue()) << ";\n";
        return true;
      })
      .Case([&](tile::FlushSumOp flush) {
        os << "flush_sum(" << getElementPlace(flush.getTarget(), flush.getIndices()).text << ", "
           << getText(flush.getSum()) << ");\n";
        return true;
      })
      .Case([&](tile::LoadOp load) {
        if (load.getOpaque()) {
          os << "load_registers(" << getText(load.getFragment()) << ", "
             << getElementPlace(load.getSource(), load.getIndices()).text << ");\n";
          return true;
        }
        os << "load<" << getColumns(load.getSource()) << ">(" << getText(load.getFragment()) << ", "
           << getRows(load.getSource(), load.getIndices(), load.getRows()) << ");\n";
        return true;
      })
      .Case([&](tile::StoreRowsOp store) {
        os << "store_rows("
           << getRows(store.getTarget(), store.getIndices(), store.getRows(), store.getGroup()) << ", "
           << getText(store.getFragment()) << ");\n";
        return true;
      })
      .Case([&](tile::StoreSharedOp store) {
        bool isRounded = !store.getTile().getType().getElementType().isF32();
        os << (isRounded ? "store_rounded(" : "store(") << getText(store.getTile()) << ", "
           << getText(store.getFragment()) << ");\n";
        return true;
      })
      .Case([&](tile::StoreOp store) {
        std::string place = getRows(store.getTarget(), store.getIndices(), store.getRows(), store.getGroup());
        if (store.getVia())
          os << "store_via" << getCopyParameters(store.getTarget(), store.getAligned()) << '(' << place
             << ", " << getText(store.getFragment()) << ", " << getText(store.getVia()) << ");\n";
        else
          os << "store<" << getColumns(store.getTarget()) << (store.getAligned() ? ", /*aligned*/ true" : "")
             << ">(" << place << ", " << getText(store.getFragment()) << ");\n";
        return true;
      })
      .Case([&](tile::AtomicAddOp add) {
        if (add.getOpaque()) {
          os << "atomic_add_registers(" << getElementPlace(add.getTarget(), add.getIndices()).text << ", "
             << getText(add.getFragment()) << ");\n";
          return true;
        }
        os << "atomic_add<" << getColumns(add.getTarget()) << ", /*aligned*/ false>("
           << getRows(add.getTarget(), add.getIndices(), add.getRows()) << ", " << getText(add.getFragment())
           << ");\n";
        return true;
      })
      .Default(false);
}
