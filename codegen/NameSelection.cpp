//===- NameSelection.cpp - what emitted code calls the values of a kernel ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/NameSelection.h"
#include "codegen/CudaTypes.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cuda;

/// An expression of more operations than this is hard to read; it gets a variable in between.
static constexpr int kMaxInlined = 4;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

ArrayRef<StringRef> cuda::getReservedNames() {
  static const StringRef words[] = {
      // C++ and CUDA
      "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
      "catch", "char", "char16_t", "char32_t", "class", "compl", "const", "const_cast", "constexpr",
      "continue", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit",
      "export", "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable",
      "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq", "private",
      "protected", "public", "register", "reinterpret_cast", "return", "short", "signed", "sizeof", "static",
      "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true",
      "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile",
      "wchar_t", "while", "xor", "xor_eq", "concept", "requires", "co_await", "co_return", "co_yield", "main",
      "blockDim", "blockIdx", "gridDim", "threadIdx", "warpSize", "dim3", "half", "linux", "unix",
      // what emitted code itself defines
      "attn", "shared", "kThreads", "kConsumers", "warpgroup",
      // what it calls
      "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos",
      "cosh", "erf", "erfc", "exp", "exp10", "exp2", "expm1", "fabs", "floor", "fma", "fmod", "log", "log10",
      "log1p", "log2", "max", "min", "pow", "powf", "rint", "round", "rsqrt", "sin", "sinh", "sqrt", "tan",
      "tanh", "trunc", "int8", "int16", "int64", "uint8", "uint16", "uint32", "uint64", "bf16", "f16",
      "Tensor", "TensorMap", "Divisor", "PackedRows", "Fragment", "RowVector", "ColumnVector", "Operand",
      "SharedTile", "SharedVector", "SharedTileRing", "Transposed", "add_non_finite", "add_to", "all_reduce",
      "any", "atomicAdd", "atomic_add", "atomic_add_registers", "await_kernels", "bit_cast", "ceil_divide",
      "ceil_divide_unsigned", "commit_group", "contains", "convert", "copy", "copy_async", "copy_finite",
      "count_leading_zeros", "count_ones", "count_trailing_zeros", "divide", "divide_approx",
      "divide_unsigned", "exp2_approx", "exp_approx", "fill", "first_column", "floor_divide", "flush_sum",
      "is_finite", "is_infinite", "is_less_or_greater", "is_nan", "is_normal", "is_ordered", "kInfinity",
      "lane_index", "lane_reduce", "load", "load_columns", "load_registers", "load_rows", "merge_warps",
      "release_kernels", "log2_approx", "log_approx", "map", "max_signed", "max_unsigned", "maximum",
      "maximum_number", "min_signed", "min_unsigned", "minimum", "minimum_number", "mma", "mma_fma",
      "mma_tf32", "modulo", "modulo_unsigned", "power", "round_to", "row_dot", "row_reduce", "shift_left",
      "shift_right", "shift_right_unsigned", "store", "store_rounded", "store_rows", "store_via",
      "tanh_approx", "to_index", "to_integer", "to_unsigned", "transpose", "wait_group", "warp_index",
      "wrap_abs", "wrap_add", "wrap_mul", "wrap_sub", "Max", "Sum", "round_integer_to", "PanelTile",
      "Pipeline", "publish_barriers", "warpgroup_index", "increase_registers", "decrease_registers",
      "open_turns", "take_turn", "pass_turn", "copy_bulk", "StoredPipeline", "LoadedPipeline", "load_panels",
      "store_panels", "store_bulk", "mma_async", "mma_commit", "mma_wait", "hold", "WorkQueue"};
  return words;
}

static bool isReserved(StringRef name) {
  static const llvm::StringSet<> words = [] {
    llvm::StringSet<> set;
    for (StringRef word : getReservedNames())
      set.insert(word);
    return set;
  }();
  // Names with two underscores belong to the compiler; the libraries' float functions end in f.
  return words.contains(name) || name.contains("__") ||
         (name.ends_with("f") && words.contains(name.drop_back()));
}

static bool isIdentifier(StringRef name) {
  return !name.empty() && (llvm::isAlpha(name.front())) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

StringRef cuda::getNameHint(Location location) {
  if (auto named = dyn_cast<NameLoc>(location))
    return isIdentifier(named.getName()) ? named.getName().getValue() : "";
  if (auto callSite = dyn_cast<CallSiteLoc>(location))
    return getNameHint(callSite.getCallee());
  return "";
}

bool cuda::carriesUnchanged(scf::WhileOp loop) {
  return llvm::equal(loop.getConditionOp().getArgs(), loop.getBeforeArguments());
}

bool cuda::isConstantName(StringRef name) {
  return name.size() > 1 && name[0] == 'k' && llvm::isUpper(name[1]);
}

//===----------------------------------------------------------------------===//
// Which operations are inlined
//===----------------------------------------------------------------------===//

/// Whether `user` prints this operand once, and before anything else happens.
static bool printsOnce(OpOperand &use) {
  // The condition of a loop is printed once but evaluated often.
  if (auto loop = dyn_cast<scf::ForOp>(use.getOwner()))
    return use.get() != loop.getUpperBound() && use.get() != loop.getStep();
  return !isa<scf::ConditionOp>(use.getOwner());
}

void NameSelection::selectInlined(Operation *op) {
  if (isa<arith::ConstantOp>(op)) {
    if (!isConstantName(getNameHint(op->getLoc())))
      inlined.insert(op);
    return;
  }
  if (op->getNumResults() != 1 || op->getNumRegions() != 0 || !isMemoryEffectFree(op) ||
      isa<tile::DivisorOp>(op))
    return;
  int size = 1;
  for (Value operand : op->getOperands())
    if (Operation *source = operand.getDefiningOp(); source && inlined.contains(source))
      size += sizes.lookup(source);
  sizes[op] = size;
  if (!getNameHint(op->getLoc()).empty() || !op->hasOneUse() || size > kMaxInlined)
    return;
  OpOperand &use = *op->use_begin();
  if (use.getOwner()->getBlock() == op->getBlock() && printsOnce(use))
    inlined.insert(op);
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

NameSelection::NameSelection(gpu::GPUFuncOp function) {
  function.getBody().walk<WalkOrder::PreOrder>([&](Operation *op) { selectInlined(op); });
  visit(function.getBody(), Names());
}

StringRef NameSelection::getName(Value value) const {
  auto it = names.find(value);
  return it == names.end() ? StringRef() : StringRef(it->second);
}

void NameSelection::assign(Value value, StringRef base, Names &visible) {
  std::string name = base.str();
  if (isReserved(name))
    name += '_';
  std::string unique = name;
  for (int number = 1; !visible.insert(unique).second; ++number)
    unique = name + "_" + llvm::utostr(number);
  names[value] = unique;
  // The printer derives names for copies from it.
  visible.insert(unique + "_next");
  visible.insert(unique + "_wide");
}

void NameSelection::visit(Region &region, Names visible) {
  for (Block &block : region) {
    for (BlockArgument argument : block.getArguments())
      if (!names.contains(argument))
        assign(argument, getBaseName(argument), visible);
    for (Operation &op : block)
      visit(&op, visible);
  }
}

static bool isCastOfInt(Operation *op) {
  return isa<arith::IndexCastOp, arith::IndexCastUIOp>(op) &&
         getScalarType(op->getOperand(0).getType()) == getScalarType(op->getResult(0).getType());
}

void NameSelection::visit(Operation *op, Names &visible) {
  if (isInlined(op))
    return;
  // The view of a buffer is the buffer; an index and an i32 are both an int.
  if (isa<memref::CastOp>(op) || (isCastOfInt(op) && !getName(op->getOperand(0)).empty())) {
    names[op->getResult(0)] = getName(op->getOperand(0)).str();
    aliases.insert(op);
    return;
  }
  // A loop's variables are its results.
  if (auto loop = dyn_cast<scf::ForOp>(op))
    for (auto [argument, result] : llvm::zip(loop.getRegionIterArgs(), loop.getResults())) {
      StringRef hint = getNameHint(argument.getLoc());
      assign(argument, hint.empty() ? getBaseName(result) : hint, visible);
      names[result] = getName(argument).str();
    }
  if (auto loop = dyn_cast<scf::WhileOp>(op); loop && carriesUnchanged(loop))
    for (auto [before, after, result] :
         llvm::zip(loop.getBeforeArguments(), loop.getAfterArguments(), loop.getResults())) {
      StringRef hint = getNameHint(before.getLoc());
      assign(before, hint.empty() ? getBaseName(result) : hint, visible);
      // A copy: an insertion moves what the map holds.
      names[after] = getName(before).str();
      names[result] = getName(before).str();
    }
  for (Value result : op->getResults())
    if (!names.contains(result))
      assign(result, getBaseName(result), visible);
  for (Region &region : op->getRegions())
    visit(region, visible);
}

static StringRef getPredicateName(arith::CmpIPredicate predicate) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return "is_equal";
  case arith::CmpIPredicate::ne:
    return "is_different";
  case arith::CmpIPredicate::slt:
  case arith::CmpIPredicate::ult:
  case arith::CmpIPredicate::sle:
  case arith::CmpIPredicate::ule:
    return "is_less";
  default:
    return "is_greater";
  }
}

static StringRef getDimensionName(gpu::Dimension dimension) {
  switch (dimension) {
  case gpu::Dimension::x:
    return "x";
  case gpu::Dimension::y:
    return "y";
  case gpu::Dimension::z:
    return "z";
  }
  llvm_unreachable("unknown dimension");
}

/// What the result of an operation without a name hint is called.
static std::string getKindName(Operation *op) {
  StringRef mnemonic = op->getName().stripDialect();
  StringRef known = llvm::StringSwitch<StringRef>(mnemonic)
                        .Cases({"addi", "addf", "add"}, "sum")
                        .Cases({"subi", "subf", "sub"}, "difference")
                        .Cases({"muli", "mulf", "mul"}, "product")
                        .Cases({"divsi", "divui", "divf", "ceildivsi", "ceildivui", "floordivsi"}, "quotient")
                        .Cases({"remsi", "remui", "remf"}, "rest")
                        .Cases({"maxsi", "maxui", "maximumf", "maxnumf"}, "greatest")
                        .Cases({"minsi", "minui", "minimumf", "minnumf"}, "least")
                        .Cases({"andi", "ori", "xori"}, "bits")
                        .Cases({"shli", "shrsi", "shrui"}, "shifted")
                        .Case("cmpf", "is_true")
                        .Case("select", "selected")
                        .Case("negf", "negative")
                        .Case("if", "chosen")
                        .Cases({"for", "while"}, "carried")
                        .Case("exp", "exponential")
                        .Case("exp2", "power_of_two")
                        .Cases({"log", "log2", "log10"}, "logarithm")
                        .Cases({"extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui", "index_cast",
                                "extsi", "extui", "trunci", "bitcast", "index_castui"},
                               "converted")
                        .Default("");
  if (!known.empty())
    return known.str();
  return mnemonic.str() + "_value";
}

std::string NameSelection::getBaseName(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    StringRef hint = getNameHint(argument.getLoc());
    Operation *parent = argument.getOwner()->getParentOp();
    unsigned number = argument.getArgNumber();
    // The location of an argument that was not parsed is often that of its operation.
    if (!hint.empty() && (isa<gpu::GPUFuncOp>(parent) || argument.getLoc() != parent->getLoc()))
      return hint.str();
    if (isa<tile::MapOp, tile::AnyOp>(parent)) {
      unsigned numIndices = tile::getNumIndexArgs(parent);
      if (number < numIndices)
        return number == 0 ? "row" : "column";
      return (getName(parent->getOperand(number - numIndices)) + "_value").str();
    }
    if (isa<scf::ForOp>(parent))
      return number == 0 ? "i" : "carried";
    return isa<gpu::GPUFuncOp>(parent) ? "argument_" + llvm::utostr(number) : "carried";
  }

  Operation *op = value.getDefiningOp();
  if (StringRef hint = getNameHint(op->getLoc()); !hint.empty())
    return hint.str();
  return llvm::TypeSwitch<Operation *, std::string>(op)
      .Case<tile::SharedAllocOp, tile::SharedReuseOp, tile::RingSlotOp, tile::FragmentAllocOp,
            tile::PipelineAllocOp, tile::WorkQueueAllocOp, tile::PipelineAcquireOp, tile::PipelineWaitOp>(
          [](auto alloc) { return alloc.getName().str(); })
      .Case([&](memref::DimOp dim) {
        std::optional<int64_t> index = dim.getConstantIndex();
        return (getName(dim.getSource()) + "_size" + (index ? "_" + llvm::utostr(*index) : "")).str();
      })
      .Case([&](memref::LoadOp load) { return (getName(load.getMemRef()) + "_value").str(); })
      .Case([](gpu::BlockIdOp id) { return ("block_" + getDimensionName(id.getDimension())).str(); })
      .Case([](gpu::ThreadIdOp id) { return ("thread_" + getDimensionName(id.getDimension())).str(); })
      .Case([](gpu::GridDimOp id) { return ("blocks_" + getDimensionName(id.getDimension())).str(); })
      .Case([](arith::CmpIOp compare) { return getPredicateName(compare.getPredicate()).str(); })
      .Default([](Operation *other) { return getKindName(other); });
}
