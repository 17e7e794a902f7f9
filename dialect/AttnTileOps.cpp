//===- AttnTileOps.cpp - verifiers and assembly of attn_tile operations ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnTileDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

#define GET_OP_CLASSES
#include "dialect/AttnTileOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

LogicalResult tile::verifyName(Operation *op, StringRef name, StringRef label) {
  bool isIdentifier = !name.empty() && !llvm::isDigit(name.front()) &&
                      llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  if (isIdentifier)
    return success();
  return op->emitOpError("expected the name to be a C++ identifier, got \"")
         << name << "\" [" << label << "]";
}

LogicalResult SharedAllocOp::verify() { return verifyName(*this, getName(), "SA1"); }
void SharedAllocOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getTile(), getName()); }

LogicalResult SharedReuseOp::verify() {
  if (getTile().getType().getBytes() > getSource().getType().getBytes())
    return emitOpError("expected a tile of at most ") << getSource().getType().getBytes() << " bytes, got "
                                                      << getTile().getType().getBytes() << " [SR1]";
  return verifyName(*this, getName(), "SR1");
}
void SharedReuseOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getTile(), getName()); }

LogicalResult RingSlotOp::verify() {
  SharedType ring = getRing().getType();
  if (!ring.isRing() || ring.getSlotType() != getTile().getType())
    return emitOpError("expected a ring and the type of its slots, got ")
           << ring << " and " << getTile().getType() << " [RS1]";
  return verifyName(*this, getName(), "RS1");
}
void RingSlotOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getTile(), getName()); }

LogicalResult FragmentAllocOp::verify() { return verifyName(*this, getName(), "FA1"); }
LogicalResult TakeIfOp::verify() { return verifyName(*this, getName(), "TI1"); }
void FragmentAllocOp::getAsmResultNames(OpAsmSetValueNameFn setName) { setName(getFragment(), getName()); }

//===----------------------------------------------------------------------===//
// What several operations ask of their operands
//===----------------------------------------------------------------------===//

static LogicalResult verifyLayout(Operation *op, StringRef what, FragmentType type, Layout expected,
                                  StringRef label) {
  if (type.getLayout() == expected)
    return success();
  return op->emitOpError("expected ") << what << " to have layout " << stringifyLayout(expected) << ", got "
                                      << stringifyLayout(type.getLayout()) << " [" << label << "]";
}

/// Constraints of a place in a tensor: indices for all dimensions but the last, which goes along the columns
/// of a tile.
static LogicalResult verifyTilePlace(Operation *op, MemRefType type, size_t numIndices, int64_t columns,
                                     StringRef indexLabel, StringRef columnLabel) {
  if (static_cast<int64_t>(numIndices) != type.getRank() - 1)
    return op->emitOpError("expected an index for each dimension of ")
           << type << " but the last, got " << numIndices << " [" << indexLabel << "]";
  SmallVector<int64_t> strides;
  int64_t offset, size = type.getShape().back();
  if (failed(type.getStridesAndOffset(strides, offset)) || strides.back() != 1 ||
      ShapedType::isDynamic(size) || size > columns)
    return op->emitOpError("expected a static last dimension of stride 1 and at most ")
           << columns << " elements, got " << type << " [" << columnLabel << "]";
  return success();
}

/// Packed rows go along the last two indices.
static LogicalResult verifyPacked(Operation *op, Value group, size_t numIndices, StringRef label) {
  if (!group || numIndices >= 2)
    return success();
  return op->emitOpError("expected at least two indices of packed rows, got ")
         << numIndices << " [" << label << "]";
}

/// Constraints of a place in a tensor of row statistics.
static LogicalResult verifyRowsPlace(Operation *op, MemRefType type, size_t numIndices, FragmentType fragment,
                                     StringRef label) {
  if (static_cast<int64_t>(numIndices) != type.getRank() || !type.getElementType().isF32())
    return op->emitOpError("expected f32 elements and an index for each dimension of ")
           << type << ", got " << numIndices << " [" << label << "]";
  return verifyLayout(op, "the fragment", fragment, Layout::rows, label);
}

//===----------------------------------------------------------------------===//
// Copies and products
//===----------------------------------------------------------------------===//

LogicalResult TensorMapOp::verify() {
  auto buffer = cast<MemRefType>(getBuffer().getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  if (buffer.getRank() < 2 || buffer.getRank() > 4 ||
      buffer.getElementType() != getMap().getType().getElementType() ||
      failed(buffer.getStridesAndOffset(strides, offset)) || strides.back() != 1)
    return emitOpError("expected a buffer of two to four dimensions, the last with stride 1, of ")
           << getMap().getType().getElementType() << ", got " << buffer << " [TM2]";
  return success();
}

static LogicalResult verifyCopy(Operation *op, MemRefType source, size_t numIndices, SharedType tile,
                                StringRef indexLabel, StringRef columnLabel) {
  if (!tile.is2D() || source.getElementType() != tile.getElementType())
    return op->emitOpError("expected source and a 2-D tile of the same element type, got ")
           << source << " and " << tile << " [" << indexLabel << "]";
  return verifyTilePlace(op, source, numIndices, tile.getShape()[1], indexLabel, columnLabel);
}

LogicalResult CopyAsyncOp::verify() {
  return failure(failed(verifyPacked(*this, getGroup(), getIndices().size(), "CA3")) ||
                 failed(verifyCopy(*this, cast<MemRefType>(getSource().getType()), getIndices().size(),
                                   getTile().getType(), "CA1", "CA2")));
}

LogicalResult CopyFiniteOp::verify() {
  return verifyCopy(*this, cast<MemRefType>(getSource().getType()), getIndices().size(), getTile().getType(),
                    "CF1", "CF2");
}

/// Shape and element type of an operand of a product.
static std::pair<ArrayRef<int64_t>, Type> getMatrix(Type type) {
  return llvm::TypeSwitch<Type, std::pair<ArrayRef<int64_t>, Type>>(type)
      .Case<SharedType, PanelsType, FragmentType>(
          [](auto matrix) { return std::pair(matrix.getShape(), Type(matrix.getElementType())); });
}

/// From an asynchronous product to the wait that names `fragment`, as far as that is in the same block.
static LogicalResult verifyUntouched(MmaOp product, Value fragment) {
  for (Operation *op = product->getNextNode(); op; op = op->getNextNode()) {
    if (isa<MmaWaitOp>(op) && llvm::is_contained(op->getOperands(), fragment))
      return success();
    WalkResult result = op->walk([&](Operation *nested) {
      auto mma = dyn_cast<MmaOp>(nested);
      bool isOrdered = mma && mma.getAtom() == Atom::wgmma &&
                       (fragment == product.getAcc() ? mma.getA() != fragment : mma.getAcc() != fragment);
      return llvm::is_contained(nested->getOperands(), fragment) && !isOrdered && !isa<MmaWaitOp>(nested)
                 ? WalkResult::interrupt()
                 : WalkResult::advance();
    });
    if (!result.wasInterrupted())
      continue;
    InFlightDiagnostic diagnostic =
        product.emitOpError("is unfinished where its fragment is used; name that in an attn_tile.mma_wait "
                            "before [MM5]");
    diagnostic.attachNote(op->getLoc()) << "used here";
    return diagnostic;
  }
  return success();
}

LogicalResult MmaOp::verify() {
  FragmentType acc = getAcc().getType();
  if (failed(verifyLayout(*this, "acc", acc, Layout::accumulator, "MM1")))
    return failure();
  auto aFragment = dyn_cast<FragmentType>(getA().getType());
  if (aFragment) {
    if (failed(verifyLayout(*this, "a", aFragment, Layout::operand_a, "MM1")))
      return failure();
    if (getTransposeA() || aFragment.getWarps() != acc.getWarps())
      return emitOpError("expected a fragment as a not to be transposed, and to have the warps of acc, got ")
             << aFragment << " and " << acc << " [MM1]";
  }
  bool isAsync = getAtom() == Atom::wgmma;
  if ((!aFragment && isa<PanelsType>(getA().getType()) != isAsync) ||
      isa<PanelsType>(getB().getType()) != isAsync)
    return emitOpError("expected shared tiles of type ")
           << (isAsync ? "panels" : "shared") << " for the atom " << stringifyAtom(getAtom()) << ", got "
           << getA().getType() << " and " << getB().getType() << " [MM1]";
  auto [a, aElement] = getMatrix(getA().getType());
  auto [b, bElement] = getMatrix(getB().getType());
  if (a.size() != 2 || b.size() != 2)
    return emitOpError("expected a and b to have two dimensions, got ")
           << getA().getType() << " and " << getB().getType() << " [MM1]";
  int64_t m = a[getTransposeA() ? 1 : 0], k = a[getTransposeA() ? 0 : 1];
  int64_t n = b[getTransposeB() ? 0 : 1], bK = b[getTransposeB() ? 1 : 0];
  if (m != acc.getShape()[0] || n != acc.getShape()[1] || k != bK || k % 16 != 0)
    return emitOpError("expected acc of ")
           << m << "x" << n << " and the same inner dimension of a and b, a multiple of 16, got " << acc
           << ", " << k << " and " << bK << " [MM2]";
  bool needs16 = getAtom() == Atom::mma_sync || isAsync;
  if (aElement != bElement || aElement.isF32() == needs16)
    return emitOpError("expected a and b to have the same element type, ")
           << (needs16 ? "f16 or bf16" : "f32") << " for the atom " << stringifyAtom(getAtom()) << ", got "
           << aElement << " and " << bElement << " [MM3]";
  bool isWarpgroup = acc.getWarps()[1] == 1 && m == 16 * acc.getWarps()[0] && n <= 256 && n % 16 == 0;
  if (isAsync ? !isWarpgroup || getTransposeA() : getOverwrite())
    return emitOpError(
               "expected overwrite with the atom wgmma only, and for that an acc of 16 rows a warp and "
               "at most 256 columns, a multiple of 16, and a not to be transposed, got ")
           << acc << " for " << stringifyAtom(getAtom()) << " [MM4]";
  if (!isAsync || (succeeded(verifyUntouched(*this, getAcc())) &&
                   (!aFragment || succeeded(verifyUntouched(*this, getA())))))
    return success();
  return failure();
}

LogicalResult AddNonFiniteOp::verify() {
  FragmentType acc = getAcc().getType();
  if (failed(verifyLayout(*this, "acc", acc, Layout::accumulator, "AF1")))
    return failure();
  ArrayRef<int64_t> a, b = getB().getType().getShape();
  if (auto fragment = dyn_cast<FragmentType>(getA().getType())) {
    if (failed(verifyLayout(*this, "a", fragment, Layout::accumulator, "AF1")))
      return failure();
    if (fragment.getWarps() != acc.getWarps() || acc.getWarps()[1] != 1)
      return emitOpError("expected a fragment as a to have the warps of acc, in one column, got ")
             << fragment << " and " << acc << " [AF1]";
    a = fragment.getShape();
  } else {
    a = cast<SharedType>(getA().getType()).getShape();
  }
  if (a.size() != 2 || b.size() != 2)
    return emitOpError("expected a and b to have two dimensions, got ")
           << getA().getType() << " and " << getB().getType() << " [AF1]";
  if (a[0] != acc.getShape()[0] || b[1] != acc.getShape()[1] || a[1] != b[0])
    return emitOpError("expected acc of ")
           << a[0] << "x" << b[1] << " and the same inner dimension of a and b, got " << acc << ", " << a[1]
           << " and " << b[0] << " [AF2]";
  return success();
}

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

void tile::YieldOp::build(OpBuilder &, OperationState &) {}

unsigned tile::getNumIndexArgs(Operation *op) {
  return llvm::all_of(op->getOperandTypes(), [](Type type) { return cast<FragmentType>(type).isRows(); }) ? 1
                                                                                                          : 2;
}

/// Adds the region of a map or an any, with its arguments and without a terminator.
static void buildElementRegion(OpBuilder &builder, OperationState &state,
                               function_ref<void(ValueRange, ValueRange)> buildBody) {
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(state.addRegion());
  bool rowsOnly =
      llvm::all_of(state.operands, [](Value value) { return cast<FragmentType>(value.getType()).isRows(); });
  unsigned numIndices = rowsOnly ? 1 : 2;
  body->addArguments(SmallVector<Type>(numIndices, builder.getIndexType()),
                     SmallVector<Location>(numIndices, state.location));
  for (Value fragment : state.operands)
    body->addArgument(cast<FragmentType>(fragment.getType()).getElementType(), state.location);
  ValueRange arguments = body->getArguments();
  buildBody(arguments.take_front(numIndices), arguments.drop_front(numIndices));
}

/// Verifies the fragments and the region of a map or an any; `whole` is set to the type of the fragments with
/// columns.
static LogicalResult verifyElementRegion(Operation *op, TypeRange yielded, FragmentType &whole,
                                         StringRef typesLabel, StringRef regionLabel) {
  FragmentType rows;
  SmallVector<FragmentType> columns, operands;
  for (Type type : op->getOperandTypes()) {
    auto fragment = cast<FragmentType>(type);
    if (fragment.isColumns()) {
      columns.push_back(fragment);
      continue;
    }
    if (fragment.getLayout() == Layout::operand_a) {
      operands.push_back(fragment);
      continue;
    }
    FragmentType &same = fragment.isRows() ? rows : whole;
    if (same && same != fragment)
      return op->emitOpError("expected fragments of one layout to have one type, got ")
             << same << " and " << fragment << " [" << typesLabel << "]";
    same = fragment;
  }
  if (whole && rows && whole.getRowsType() != rows)
    return op->emitOpError("expected rows of type ")
           << whole.getRowsType() << ", got " << rows << " [" << typesLabel << "]";
  for (FragmentType fragment : columns)
    if (!whole || whole.getColumnsType(fragment.getElementType()) != fragment)
      return op->emitOpError("expected columns of the accumulators, got ")
             << fragment << " [" << typesLabel << "]";
  for (FragmentType fragment : operands)
    if (!whole || fragment.getShape() != whole.getShape() || fragment.getWarps() != whole.getWarps() ||
        fragment.getElementType().getIntOrFloatBitWidth() != 16)
      return op->emitOpError(
                 "expected operands of 16 bits, of the shape and the warps of the accumulators, got ")
             << fragment << " [" << typesLabel << "]";
  SmallVector<Type> expected(getNumIndexArgs(op), IndexType::get(op->getContext()));
  for (Type type : op->getOperandTypes())
    expected.push_back(cast<FragmentType>(type).getElementType());
  Region &body = op->getRegion(0);
  if (body.getArgumentTypes() != TypeRange(expected))
    return op->emitOpError("expected region arguments of types ")
           << expected << ", got " << body.getArgumentTypes() << " [" << regionLabel << "]";
  Operation *terminator = body.front().getTerminator();
  if (!isa<YieldOp>(terminator) || terminator->getOperandTypes() != yielded)
    return op->emitOpError("expected the region to yield ")
           << yielded << ", got " << terminator->getOperandTypes() << " [" << regionLabel << "]";
  return success();
}

static void nameElementRegionArguments(Region &region, OpAsmSetValueNameFn setName) {
  if (region.empty() || region.getNumArguments() < getNumIndexArgs(region.getParentOp()))
    return;
  setName(region.getArgument(0), "row");
  if (getNumIndexArgs(region.getParentOp()) == 2)
    setName(region.getArgument(1), "column");
}

void MapOp::build(OpBuilder &builder, OperationState &state, ValueRange ins, ValueRange outs,
                  function_ref<SmallVector<Value>(OpBuilder &, Location, ValueRange, ValueRange)> buildBody,
                  bool relative) {
  state.addOperands(ins);
  state.addOperands(outs);
  if (relative)
    state.getOrAddProperties<Properties>().relative = builder.getUnitAttr();
  state.getOrAddProperties<Properties>().operandSegmentSizes = {static_cast<int32_t>(ins.size()),
                                                                static_cast<int32_t>(outs.size())};
  buildElementRegion(builder, state, [&](ValueRange indices, ValueRange elements) {
    YieldOp::create(builder, state.location, buildBody(builder, state.location, indices, elements));
  });
}

LogicalResult MapOp::verify() {
  SmallVector<Type> yielded;
  for (Type type : getOuts().getTypes())
    yielded.push_back(cast<FragmentType>(type).getElementType());
  FragmentType whole;
  if (failed(verifyElementRegion(*this, yielded, whole, "MP1", "MP2")))
    return failure();
  if (whole && llvm::any_of(getOuts().getTypes(), [](Type type) {
        return cast<FragmentType>(type).getLayout() != Layout::accumulator;
      }))
    return emitOpError("expected accumulators among the outs alone, since there is one [MP1]");
  return success();
}

void MapOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameElementRegionArguments(region, setName);
}

LogicalResult FirstColumnOp::verify() {
  return verifyLayout(*this, "the fragment", getFragment().getType(), Layout::accumulator, "FC1");
}

void AnyOp::build(OpBuilder &builder, OperationState &state, ValueRange ins,
                  function_ref<Value(OpBuilder &, Location, ValueRange, ValueRange)> buildBody) {
  state.addOperands(ins);
  state.addTypes(builder.getI1Type());
  buildElementRegion(builder, state, [&](ValueRange indices, ValueRange elements) {
    YieldOp::create(builder, state.location, buildBody(builder, state.location, indices, elements));
  });
}

LogicalResult AnyOp::verify() {
  FragmentType whole;
  return verifyElementRegion(*this, getHolds().getType(), whole, "AN1", "AN2");
}

void AnyOp::getAsmBlockArgumentNames(Region &region, OpAsmSetValueNameFn setName) {
  nameElementRegionArguments(region, setName);
}

LogicalResult AccumulateOp::verify() {
  return verifyLayout(*this, "the sum", getSum().getType(), Layout::thread, "AC1");
}

LogicalResult FlushSumOp::verify() {
  auto target = cast<MemRefType>(getTarget().getType());
  if (static_cast<int64_t>(getIndices().size()) != target.getRank() || !target.getElementType().isF32())
    return emitOpError("expected f32 elements and an index for each dimension of ")
           << target << ", got " << getIndices().size() << " [FS1]";
  return verifyLayout(*this, "the sum", getSum().getType(), Layout::thread, "FS1");
}

LogicalResult ConvertOp::verify() {
  FragmentType source = getSource().getType(), target = getTarget().getType();
  if (source.getLayout() != Layout::accumulator || target.getLayout() != Layout::operand_a ||
      source.getShape() != target.getShape() || source.getWarps() != target.getWarps())
    return emitOpError("expected an accumulator and an operand_a of its shape and warps, got ")
           << source << " and " << target << " [CV1]";
  return success();
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Where several warp columns hold a row they meet in shared memory.
static LogicalResult verifyScratch(Operation *op, FragmentType rows, TypedValue<SharedType> scratch,
                                   bool isPartial, StringRef label) {
  int64_t warpColumns = rows.getWarps()[1];
  int64_t expected = warpColumns > 1 && !isPartial ? warpColumns * rows.getShape()[0] : 0;
  SharedType type = scratch ? scratch.getType() : SharedType();
  bool isVector = type && type.getShape().size() == 1 && type.getElementType().isF32();
  if (expected == 0 ? !type : isVector && type.getShape()[0] == expected)
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError("expected ");
  if (expected == 0)
    diagnostic << "no scratch";
  else
    diagnostic << "a scratch of " << expected << " f32, for the rows of " << warpColumns << " warp columns";
  diagnostic << ", got ";
  if (type)
    diagnostic << type;
  else
    diagnostic << "none";
  return diagnostic << " [" << label << "]";
}

LogicalResult RowReduceOp::verify() {
  FragmentType source = getSource().getType();
  if (source.getLayout() != Layout::accumulator || source.getRowsType() != getRows().getType())
    return emitOpError("expected an accumulator and its rows, got ")
           << source << " and " << getRows().getType() << " [RR1]";
  if (getInterleaved() && !getPartial())
    return emitOpError("interleaves the elements of whole rows, expected `partial` [RR3]");
  return verifyScratch(*this, getRows().getType(), getScratch(), getPartial(), "RR2");
}

LogicalResult RowCombineOp::verify() {
  return failure(failed(verifyLayout(*this, "the fragment", getRows().getType(), Layout::rows, "RC1")) ||
                 failed(verifyScratch(*this, getRows().getType(), getScratch(), /*isPartial=*/false, "RC2")));
}

LogicalResult MergeWarpsOp::verify() {
  FragmentType part = getPart().getType(), out = getOut().getType();
  int64_t warps = out.getWarps().empty() ? 0 : out.getWarps().back();
  if (part.getLayout() != Layout::accumulator || out.getLayout() != Layout::accumulator ||
      part.getShape() != out.getShape() || part.getWarps() != ArrayRef<int64_t>{1, 1} ||
      out.getWarps().front() != 1 || getPartLse().getType() != part.getRowsType() ||
      getLse().getType() != out.getRowsType())
    return emitOpError("expected accumulators of one shape, of 1x1 and of 1xW warps, and their rows, got ")
           << part << ", " << getPartLse().getType() << ", " << out << " and " << getLse().getType()
           << " [MW1]";
  int64_t rows = warps * part.getShape()[0], elements = rows * part.getShape()[1];
  for (auto [type, expected] :
       {std::pair(getScratch().getType(), elements), {getLseScratch().getType(), rows}})
    if (type.getShape() != ArrayRef(expected) || !type.getElementType().isF32())
      return emitOpError("expected a scratch of ") << expected << " f32, got " << type << " [MW2]";
  return success();
}

LogicalResult LoadRowsOp::verify() {
  return verifyRowsPlace(*this, cast<MemRefType>(getSource().getType()), getIndices().size(),
                         getFragment().getType(), "LR1");
}

LogicalResult LoadColumnsOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  FragmentType fragment = getFragment().getType();
  if (source.getRank() < 1 || size_t(source.getRank()) != getIndices().size() || !fragment.isColumns() ||
      fragment.getElementType() != source.getElementType())
    return emitOpError("expected an index for each dimension of the source and columns of its elements, got ")
           << getIndices().size() << " for " << source << ", and " << fragment << " [LC1]";
  return success();
}

LogicalResult StoreRowsOp::verify() {
  if (failed(verifyPacked(*this, getGroup(), getIndices().size(), "SO2")))
    return failure();
  return verifyRowsPlace(*this, cast<MemRefType>(getTarget().getType()), getIndices().size(),
                         getFragment().getType(), "SO1");
}

LogicalResult RowDotOp::verify() {
  if (failed(verifyLayout(*this, "the fragment", getRows().getType(), Layout::rows, "RD1")))
    return failure();
  SharedType type = getA().getType();
  if (!type.is2D() || type.getShape()[0] != getRows().getType().getShape()[0])
    return emitOpError("expected 2-D tiles with the rows of ")
           << getRows().getType() << ", got " << type << " [RD1]";
  return success();
}

//===----------------------------------------------------------------------===//
// Fragments from and to memory
//===----------------------------------------------------------------------===//

/// Constraints of an accumulator and its place in an f32 tensor.
static LogicalResult verifyF32Place(Operation *op, FragmentType fragment, MemRefType type, size_t numIndices,
                                    bool opaque, StringRef label) {
  if (failed(verifyLayout(op, "the fragment", fragment, Layout::accumulator, label)))
    return failure();
  if (!type.getElementType().isF32())
    return op->emitOpError("expected a tensor of f32, got ") << type << " [" << label << "]";
  int64_t elements = fragment.getShape()[0] * fragment.getShape()[1];
  if (opaque && type.getShape().back() != elements)
    return op->emitOpError("expected a last dimension of ")
           << elements << ", the elements of the fragment, got " << type << " [" << label << "]";
  return verifyTilePlace(op, type, numIndices, opaque ? elements : fragment.getShape()[1], label, label);
}

LogicalResult LoadOp::verify() {
  return verifyF32Place(*this, getFragment().getType(), cast<MemRefType>(getSource().getType()),
                        getIndices().size(), getOpaque(), "LD1");
}

LogicalResult LoadOperandOp::verify() {
  FragmentType fragment = getFragment().getType();
  if (failed(verifyLayout(*this, "the fragment", fragment, Layout::operand_a, "LO4")))
    return failure();
  auto source = cast<MemRefType>(getSource().getType());
  if (source.getElementType() != fragment.getElementType())
    return emitOpError("expected source and fragment of the same element type, got ")
           << source << " and " << fragment << " [LO1]";
  return failure(
      failed(verifyPacked(*this, getGroup(), getIndices().size(), "LO3")) ||
      failed(verifyTilePlace(*this, source, getIndices().size(), fragment.getShape()[1], "LO1", "LO2")));
}

static LogicalResult verifySameShape(Operation *op, FragmentType fragment, SharedType tile, StringRef label) {
  if (failed(verifyLayout(op, "the fragment", fragment, Layout::accumulator, label)))
    return failure();
  if (fragment.getShape() != tile.getShape())
    return op->emitOpError("expected a tile of the fragment's shape, got ")
           << fragment << " and " << tile << " [" << label << "]";
  return success();
}

LogicalResult LoadSharedOp::verify() {
  if (getTile().getType().getElementType().isF32())
    return emitOpError("expected a tile of f16 or bf16, got ") << getTile().getType() << " [LS1]";
  return verifySameShape(*this, getFragment().getType(), getTile().getType(), "LS1");
}

LogicalResult StoreSharedOp::verify() {
  return verifySameShape(*this, getFragment().getType(), getTile().getType(), "SS1");
}

LogicalResult StoreOp::verify() {
  FragmentType fragment = getFragment().getType();
  auto target = cast<MemRefType>(getTarget().getType());
  if (failed(verifyLayout(*this, "the fragment", fragment, Layout::accumulator, "ST2")))
    return failure();
  if (getVia() && (getVia().getType().getShape() != fragment.getShape() ||
                   getVia().getType().getElementType() != target.getElementType()))
    return emitOpError("expected the tile to have the fragment's shape and the target's element type, got ")
           << getVia().getType() << " for " << fragment << " and " << target << " [ST2]";
  if (failed(verifyPacked(*this, getGroup(), getIndices().size(), "ST3")))
    return failure();
  return verifyTilePlace(*this, target, getIndices().size(), fragment.getShape()[1], "ST1", "ST1");
}

LogicalResult AtomicAddOp::verify() {
  return verifyF32Place(*this, getFragment().getType(), cast<MemRefType>(getTarget().getType()),
                        getIndices().size(), getOpaque(), "AA1");
}
