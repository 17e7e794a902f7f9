//===- VerifyLLVM.cpp - the contract at the end of the CPU pipeline -----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/Passes.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace attn {
#define GEN_PASS_DEF_VERIFYLLVMPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// The stage of the pipeline that should have lowered operations of a dialect.
static StringRef getStage(StringRef dialect) {
  return llvm::StringSwitch<StringRef>(dialect)
      .Case("attn", "the lowering of attention to loops")
      .Cases({"tensor", "bufferization"}, "bufferization")
      .Case("linalg", "the lowering of linalg to loops")
      .Case("scf", "the lowering of loops to branches")
      .Case("vector", "the lowering of vectors")
      .Case("math", "the lowering of mathematical functions")
      .Case("builtin", "the conversion of types to LLVM's")
      .Default("the conversion to the LLVM dialect");
}

namespace {
struct VerifyLLVM : attn::impl::VerifyLLVMPassBase<VerifyLLVM> {
  void runOnOperation() override {
    // A cast is left where what it feeds is: it tells nothing more, unless it stands alone.
    SmallVector<Operation *> left, casts;
    getOperation().walk([&](Operation *op) {
      if (isa<UnrealizedConversionCastOp>(op))
        casts.push_back(op);
      else if (!isa<ModuleOp>(op) && !isa_and_present<LLVM::LLVMDialect>(op->getDialect()))
        left.push_back(op);
    });
    llvm::StringSet<> reported;
    for (Operation *op : left.empty() ? casts : left)
      if (reported.insert(op->getName().getStringRef()).second)
        op->emitError() << "'" << op->getName() << "' is left at the end of the CPU pipeline: "
                        << getStage(op->getName().getDialectNamespace()) << " has no form for it";
    if (!reported.empty())
      return signalPassFailure();
    // It has served, and a tool that knows the LLVM dialect only could not read it.
    getOperation()->removeAttr(attn::AttnDialect::getTargetAttrName());
  }
};
} // namespace
