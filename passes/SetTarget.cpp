//===- SetTarget.cpp - --attn-set-target, named targets ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Passes.h"
#include "passes/Targets.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_SETTARGETPASS
#include "passes/Passes.h.inc"
} // namespace attn

std::optional<Arch> attn::parseArch(StringRef name) {
  std::string symbol = name.str();
  std::replace(symbol.begin(), symbol.end(), '-', '_');
  return symbolizeArch(symbol);
}

TargetAttr attn::getNamedTarget(MLIRContext *context, Arch arch) {
  auto cpu = [&](int64_t vectorBits, int64_t vectorRegisters) {
    return TargetAttr::get(context, arch, vectorBits, vectorRegisters, /*l1_bytes=*/32768,
                           /*l2_bytes=*/1048576,
                           /*multiprocessors=*/1, /*max_shared_memory=*/0);
  };
  // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": 99, 163 or 227 KB a block.
  auto gpu = [&](int64_t sharedKilobytes, int64_t multiprocessors) {
    return TargetAttr::get(context, arch, /*vector_bits=*/0, /*vector_registers=*/0, /*l1_bytes=*/32768,
                           /*l2_bytes=*/524288, multiprocessors, sharedKilobytes * 1024);
  };
  switch (arch) {
  case Arch::x86_64:
    return cpu(128, 16);
  case Arch::x86_64_v3:
    return cpu(256, 16);
  case Arch::x86_64_v4:
    return cpu(512, 32);
  case Arch::aarch64:
    return cpu(128, 32);
  case Arch::sm_80:
    return gpu(163, 108);
  case Arch::sm_86:
    return gpu(99, 84);
  case Arch::sm_89:
    return gpu(99, 128);
  case Arch::sm_90a:
    return gpu(227, 132);
  case Arch::sm_100a:
    return gpu(227, 148);
  case Arch::sm_120a:
    return gpu(99, 170);
  }
  llvm_unreachable("unhandled arch");
}

TargetAttr attn::getTarget(ModuleOp module) {
  return module->getAttrOfType<TargetAttr>(AttnDialect::getTargetAttrName());
}

namespace {
struct SetTargetPass : attn::impl::SetTargetPassBase<SetTargetPass> {
  using SetTargetPassBase::SetTargetPassBase;
  void runOnOperation() override {
    std::optional<Arch> symbol = parseArch(arch);
    if (!symbol) {
      getOperation()->emitError("unknown arch '")
          << arch
          << "', expected x86_64, x86_64_v3, x86_64_v4, aarch64, sm_80, "
             "sm_86, sm_89, sm_90a, sm_100a or sm_120a";
      return signalPassFailure();
    }
    getOperation()->setAttr(AttnDialect::getTargetAttrName(), getNamedTarget(&getContext(), *symbol));
  }
};
} // namespace
