//===- AttnTileDialect.cpp - registration, types, attributes -----------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

#include "dialect/AttnTileDialect.cpp.inc"
#include "dialect/AttnTileEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/AttnTileAttributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/AttnTileTypes.cpp.inc"

void AttnTileDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/AttnTileAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialect/AttnTileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/AttnTileOps.cpp.inc"
      >();
}

LogicalResult AttnTileDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  if (attr.getName() == getLeftZeroAttrName()) {
    if (isa<memref::AllocOp>(op) && isa<UnitAttr>(attr.getValue()))
      return success();
    return op->emitOpError("expected '")
           << attr.getName().strref() << "' on a memref.alloc only, without a value";
  }
  if (attr.getName() != getKernelAttrName())
    return op->emitOpError("unknown attribute '")
           << attr.getName().strref() << "' of the attn_tile dialect, expected '" << getKernelAttrName()
           << "' or '" << getLeftZeroAttrName() << "'";
  auto kernel = dyn_cast<gpu::GPUFuncOp>(op);
  if (!kernel || !kernel.isKernel())
    return op->emitOpError("expected '") << attr.getName().strref() << "' on a gpu.func kernel only";
  if (!isa<KernelAttr>(attr.getValue()))
    return op->emitOpError("expected '")
           << attr.getName().strref() << "' to be an #attn_tile.kernel, got " << attr.getValue();
  return success();
}

LogicalResult KernelAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t warps,
                                 int64_t blocksPerMultiprocessor, int64_t sharedBytes, int64_t optimization) {
  if (warps < 1 || warps > 32 || blocksPerMultiprocessor < 1 || sharedBytes < 0 || optimization < 0 ||
      optimization > 3) // (K1)
    return emitError()
           << "expected warps from 1 to 32, blocks_per_multiprocessor of at least 1, shared_bytes of at "
              "least 0 and optimization from 0 to 3, got "
           << warps << ", " << blocksPerMultiprocessor << ", " << sharedBytes << " and " << optimization
           << " [K1]";
  return success();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static void printShape(AsmPrinter &printer, ArrayRef<int64_t> shape, Type elementType) {
  for (int64_t size : shape)
    printer << size << 'x';
  printer << elementType;
}

template <typename ElementType>
static ParseResult parseShape(AsmParser &parser, SmallVectorImpl<int64_t> &shape, ElementType &elementType) {
  return failure(parser.parseDimensionList(shape, /*allowDynamic=*/false) || parser.parseType(elementType));
}

Type SharedType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  FloatType elementType;
  if (parser.parseLess() || parseShape(parser, shape, elementType) || parser.parseGreater())
    return {};
  return parser.getChecked<SharedType>(parser.getContext(), shape, elementType);
}

void SharedType::print(AsmPrinter &printer) const {
  printer << '<';
  printShape(printer, getShape(), getElementType());
  printer << '>';
}

Type PanelsType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  FloatType elementType;
  if (parser.parseLess() || parseShape(parser, shape, elementType) || parser.parseGreater())
    return {};
  return parser.getChecked<PanelsType>(parser.getContext(), shape, elementType);
}

void PanelsType::print(AsmPrinter &printer) const {
  printer << '<';
  printShape(printer, getShape(), getElementType());
  printer << '>';
}

Type PipelineType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  FloatType elementType;
  int64_t consumers;
  if (parser.parseLess() || parseShape(parser, shape, elementType) || parser.parseComma() ||
      parser.parseInteger(consumers))
    return {};
  auto use = TileUse::multiplied;
  if (succeeded(parser.parseOptionalComma())) {
    if (succeeded(parser.parseOptionalKeyword("loaded")))
      use = TileUse::loaded;
    else if (parser.parseKeyword("stored", " or loaded"))
      return {};
    else
      use = TileUse::stored;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<PipelineType>(parser.getContext(), shape, elementType, consumers, use);
}

void PipelineType::print(AsmPrinter &printer) const {
  printer << '<';
  printShape(printer, getShape(), getElementType());
  printer << ", " << getConsumers();
  if (getUse() != TileUse::multiplied)
    printer << ", " << stringifyTileUse(getUse());
  printer << '>';
}

LogicalResult SharedType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                 FloatType elementType) {
  if (shape.empty() || shape.size() > 3 || llvm::any_of(shape, [](int64_t size) { return size < 1; }) ||
      !(elementType.isF32() || elementType.isF16() || elementType.isBF16())) // (TS1)
    return emitError()
           << "expected a shared tile of one to three dimensions of at least 1, of f32, f16 or bf16, "
              "got ["
           << shape << "] of " << elementType << " [TS1]";
  if (shape.size() > 1 && shape.back() * elementType.getWidth() % 256 != 0) // (TS2)
    return emitError() << "expected rows of a multiple of 32 bytes, got " << shape.back() << " of "
                       << elementType << " [TS2]";
  return success();
}

int64_t SharedType::getBytes() const {
  int64_t bytes = getElementType().getWidth() / 8;
  for (int64_t size : getShape())
    bytes *= size;
  return bytes;
}

Type FragmentType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape, warps;
  Type elementType;
  StringRef keyword;
  SMLoc location;
  if (parser.parseLess() || parseShape(parser, shape, elementType) || parser.parseComma() ||
      parser.getCurrentLocation(&location) || parser.parseKeyword(&keyword))
    return {};
  std::optional<Layout> layout = symbolizeLayout(keyword);
  if (!layout) {
    parser.emitError(location, "expected accumulator, operand_a, rows, columns or thread, got ") << keyword;
    return {};
  }
  if (parser.parseComma() ||
      parser.parseDimensionList(warps, /*allowDynamic=*/false, /*withTrailingX=*/false) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<FragmentType>(parser.getContext(), shape, elementType, *layout, warps);
}

void FragmentType::print(AsmPrinter &printer) const {
  printer << '<';
  printShape(printer, getShape(), getElementType());
  printer << ", " << stringifyLayout(getLayout()) << ", ";
  printer.printDimensionList(getWarps());
  printer << '>';
}

LogicalResult FragmentType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                   Type elementType, Layout layout, ArrayRef<int64_t> warps) {
  bool isOperand = layout == Layout::operand_a, isColumns = layout == Layout::columns;
  bool hasType = isOperand   ? elementType.isF16() || elementType.isBF16()
                 : isColumns ? elementType.isIntOrFloat() && elementType.getIntOrFloatBitWidth() <= 32
                             : elementType.isF32();
  static constexpr StringLiteral dimensions[] = {"no dimension", "one dimension", "two dimensions"};
  size_t rank = layout == Layout::thread ? 0 : layout == Layout::rows || isColumns ? 1 : 2;
  if (shape.size() != rank || !hasType) // (TF1)
    return emitError() << "expected a fragment of layout " << stringifyLayout(layout) << " to have "
                       << dimensions[rank] << " of "
                       << (isOperand   ? "f16 or bf16"
                           : isColumns ? "at most 32 bits"
                                       : "f32")
                       << ", got [" << shape << "] of " << elementType << " [TF1]";
  bool isValid = warps.size() == 2 && warps[0] >= 1 && warps[1] >= 1 && (!isOperand || warps[1] == 1);
  if (isValid && rank > 0 && !isColumns)
    isValid = shape[0] >= 1 && shape[0] % (16 * warps[0]) == 0;
  if (isValid && (rank == 2 || isColumns))
    isValid = shape.back() >= 1 && shape.back() % ((isOperand ? 16 : 8) * warps[1]) == 0;
  if (!isValid) // (TF2)
    return emitError()
           << "expected the rows of a fragment to be a multiple of 16 for each warp row and its "
              "columns of 8 for each warp column (of operand_a: of 16, and one warp column), got ["
           << shape << "] for warps [" << warps << "] [TF2]";
  return success();
}

int64_t FragmentType::getRegisters() const {
  if (getLayout() == Layout::thread)
    return 1;
  int64_t rows = isColumns() ? 1 : getShape()[0] / (16 * getWarps()[0]) * 2; // of a thread
  int64_t columns = isRows() ? 1 : getShape().back() / (8 * getWarps()[1]) * 2;
  // What is narrower than a register is packed in operands alone.
  int64_t bits = getLayout() == Layout::operand_a ? getElementType().getIntOrFloatBitWidth() : 32;
  return llvm::divideCeil(rows * columns * bits, 32);
}

FragmentType FragmentType::getRowsType() const {
  return get(getContext(), getShape().take_front(), Float32Type::get(getContext()), Layout::rows, getWarps());
}

FragmentType FragmentType::getColumnsType(Type elementType) const {
  return get(getContext(), getShape().back(), elementType, Layout::columns, getWarps());
}

Type TensorMapType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  FloatType elementType;
  if (parser.parseLess() || parseShape(parser, shape, elementType) || parser.parseGreater())
    return {};
  return parser.getChecked<TensorMapType>(parser.getContext(), shape, elementType);
}

void TensorMapType::print(AsmPrinter &printer) const {
  printer << '<';
  printShape(printer, getShape(), getElementType());
  printer << '>';
}

LogicalResult TensorMapType::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape,
                                    FloatType elementType) {
  if (shape.size() != 2 || shape[0] < 1 || shape[0] > 256 || !(elementType.isF16() || elementType.isBF16()) ||
      shape[1] != 64) // (TM1)
    return emitError() << "expected a box of 1 to 256 rows and of columns of 128 bytes in all, of f16 or "
                          "bf16, got ["
                       << shape << "] of " << elementType << " [TM1]";
  return success();
}
