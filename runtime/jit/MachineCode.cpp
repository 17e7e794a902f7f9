//===- MachineCode.cpp - LLVM IR to an object file for one CPU ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/MachineCode.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace attn;

static llvm::StringRef getCpuName(Arch arch) {
  switch (arch) {
  case Arch::x86_64:
    return "x86-64";
  case Arch::x86_64_v3:
    return "x86-64-v3";
  case Arch::x86_64_v4:
    return "x86-64-v4";
  case Arch::aarch64:
    return "generic";
  default:
    return {};
  }
}

llvm::Expected<std::unique_ptr<llvm::TargetMachine>> attn::createTargetMachine(TargetAttr target,
                                                                               bool optimize) {
  static const bool initialized =
      !llvm::InitializeNativeTarget() && !llvm::InitializeNativeTargetAsmPrinter();
  (void)initialized;
  llvm::StringRef cpu = getCpuName(target.getArch());
  if (cpu.empty())
    return llvm::createStringError("target " + stringifyArch(target.getArch()) +
                                   " is not a CPU; expected host, x86-64, x86-64-v3, x86-64-v4 or aarch64");
  llvm::Triple triple(llvm::sys::getProcessTriple());
  triple.setArch(target.getArch() == Arch::aarch64 ? llvm::Triple::aarch64 : llvm::Triple::x86_64);
  std::string error;
  const llvm::Target *llvmTarget = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!llvmTarget)
    return llvm::createStringError("no code generator for " + triple.str() + " in this program: " + error);
  return std::unique_ptr<llvm::TargetMachine>(llvmTarget->createTargetMachine(
      triple, cpu, /*Features=*/"", llvm::TargetOptions(), llvm::Reloc::PIC_, llvm::CodeModel::Small,
      optimize ? llvm::CodeGenOptLevel::Aggressive : llvm::CodeGenOptLevel::None, /*JIT=*/true));
}

/// Lets `module` multiply and add apart where the target has no fused instruction. There llvm.fma would
/// become a call of libm for each element, and it is in our code for speed, not for its rounding.
static void allowUnfusedMultiplyAdd(llvm::Module &module) {
  for (llvm::Function &declaration : llvm::make_early_inc_range(module)) {
    if (declaration.getIntrinsicID() != llvm::Intrinsic::fma)
      continue;
    declaration.replaceAllUsesWith(llvm::Intrinsic::getOrInsertDeclaration(&module, llvm::Intrinsic::fmuladd,
                                                                           declaration.getReturnType()));
    declaration.eraseFromParent();
  }
}

void attn::optimize(llvm::Module &module, llvm::TargetMachine &machine, TargetAttr target) {
  std::string vectorBits = std::to_string(target.getVectorBits());
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", machine.getTargetCPU());
    function.addFnAttr("prefer-vector-width", vectorBits);
  }

  if (target.getArch() == Arch::x86_64)
    allowUnfusedMultiplyAdd(module);

  llvm::LoopAnalysisManager loopAnalyses;
  llvm::FunctionAnalysisManager functionAnalyses;
  llvm::CGSCCAnalysisManager sccAnalyses;
  llvm::ModuleAnalysisManager moduleAnalyses;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(moduleAnalyses);
  builder.registerCGSCCAnalyses(sccAnalyses);
  builder.registerFunctionAnalyses(functionAnalyses);
  builder.registerLoopAnalyses(loopAnalyses);
  builder.crossRegisterProxies(loopAnalyses, functionAnalyses, sccAnalyses, moduleAnalyses);
  llvm::ModulePassManager passes = machine.getOptLevel() == llvm::CodeGenOptLevel::None
                                       ? builder.buildO0DefaultPipeline(llvm::OptimizationLevel::O0)
                                       : builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3);
  passes.run(module, moduleAnalyses);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
attn::emit(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> code;
  llvm::raw_svector_ostream os(code);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, /*DwoOut=*/nullptr, type, /*DisableVerify=*/true))
    return llvm::createStringError("the code generator for " + machine.getTargetTriple().str() +
                                   " cannot emit this kind of file");
  passes.run(module);
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(code), /*RequiresNullTerminator=*/false);
}
