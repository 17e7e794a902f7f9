//===- CpuExecutable.cpp - compiled functions, ready to run ------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CpuExecutable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Pipelines.h"
#include "passes/Targets.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/jit/CallFrame.h"
#include "runtime/jit/HostTarget.h"
#include "runtime/jit/MachineCode.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;
using namespace attn;

#ifdef __x86_64__
// Conversions of f16 that LLVM calls where the CPU has no instruction. The compiler's library has them, as
// hidden symbols: the loader does not find them in the process.
extern "C" {
void __extendhfsf2();
void __truncsfhf2();
void __truncdfhf2();
}

/// __truncsfbf2, which LLVM calls to store an argument of bf16: nearest, ties to even. A bf16 is returned in
/// the low bits of the register that a float is returned in.
static float truncateToBFloat16(float value) {
  auto bits = llvm::bit_cast<uint32_t>(value);
  bool isNaN = (bits & 0x7fffffff) > 0x7f800000;
  uint32_t rounded = isNaN ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return llvm::bit_cast<float>(rounded);
}
#endif

//===----------------------------------------------------------------------===//
// MLIR to LLVM IR
//===----------------------------------------------------------------------===//

/// Runs the passes that `build` adds on `module`; an error is the first diagnostic, on one line.
static llvm::Error runPasses(ModuleOp module, llvm::function_ref<void(OpPassManager &)> build) {
  MLIRContext *context = module.getContext();
  std::string message;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    llvm::raw_string_ostream os(message);
    if (message.empty())
      os << diagnostic.getLocation() << ": " << diagnostic;
    return success();
  });
  PassManager pm(context, ModuleOp::getOperationName());
  build(pm);
  if (failed(pm.run(module)))
    return llvm::createStringError(message.empty() ? "the CPU pipeline failed" : message);
  return llvm::Error::success();
}

/// Registers what the CPU pipeline and the translation to LLVM IR need.
static void prepareContext(MLIRContext *context) {
  DialectRegistry registry;
  registerPipelineInterfaces(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context->appendDialectRegistry(registry);
}

/// The dynamic sizes of what the function returns, as far as they are known; calls in it have been inlined.
static SmallVector<ResultSize> computeResultSizes(func::FuncOp function) {
  SmallVector<ResultSize> sizes;
  for (auto [result, value] : llvm::enumerate(function.getBody().back().getTerminator()->getOperands())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    for (unsigned dim = 0; type && dim < type.getRank(); ++dim) {
      if (!type.isDynamicDim(dim))
        continue;
      if (auto formula = SizeFormula::compute(value, dim))
        sizes.push_back({static_cast<unsigned>(result), dim, std::move(*formula)});
      else
        llvm::consumeError(formula.takeError());
    }
  }
  return sizes;
}

/// What the entry point of a function is called: no name of a function in MLIR text looks like it.
static std::string getEntryPointName(StringRef function) { return ("attn.entry." + function).str(); }

/// Adds a function that takes all parameters of `function` from an array of 64-bit slots, so that functions
/// of every signature are called in one way.
static void addEntryPoint(llvm::Function &function) {
  llvm::Module &module = *function.getParent();
  llvm::IRBuilder<> b(module.getContext());
  auto *entry =
      llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), b.getPtrTy(), /*isVarArg=*/false),
                             llvm::Function::ExternalLinkage, getEntryPointName(function.getName()), module);
  b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "", entry));
  SmallVector<llvm::Value *> values;
  for (llvm::Argument &argument : function.args()) {
    llvm::Value *slot = b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), entry->getArg(0), argument.getArgNo());
    values.push_back(b.CreateLoad(argument.getType(), slot));
  }
  b.CreateCall(&function, values);
  b.CreateRetVoid();
}

//===----------------------------------------------------------------------===//
// CpuExecutable
//===----------------------------------------------------------------------===//

CpuExecutable::~CpuExecutable() = default;

/// A linker of objects into this process, which knows the runtime's functions.
static llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> createJit() {
  // Compiled code has no static constructors, which are all that a platform would care for.
  auto jit = llvm::orc::LLJITBuilder().setPlatformSetUp(llvm::orc::setUpInactivePlatform).create();
  if (!jit)
    return jit.takeError();
  llvm::orc::SymbolMap symbols;
  auto define = [&](StringRef name, void (*function)()) {
    symbols[(*jit)->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                              llvm::JITSymbolFlags::Exported |
                                                  llvm::JITSymbolFlags::Callable};
  };
  define("attn_cpu_parallel_for", reinterpret_cast<void (*)()>(&attn_cpu_parallel_for));
#ifdef __x86_64__
  define("__extendhfsf2", &__extendhfsf2);
  define("__truncsfhf2", &__truncsfhf2);
  define("__truncdfhf2", &__truncdfhf2);
  define("__truncsfbf2", reinterpret_cast<void (*)()>(&truncateToBFloat16));
#endif
  if (llvm::Error error = (*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))))
    return std::move(error);
  return std::move(*jit);
}

llvm::Expected<std::unique_ptr<CpuExecutable>> CpuExecutable::compile(ModuleOp source,
                                                                      const CpuCompileOptions &options) {
  std::string linkError; // outlives the session, which may write to it until it ends
  std::unique_ptr<CpuExecutable> executable(new CpuExecutable);
  executable->numThreads = options.numThreads;
  executable->target = options.target            ? options.target
                       : attn::getTarget(source) ? attn::getTarget(source)
                                                 : getHostTarget(source.getContext());
  TargetAttr target = executable->target;
  auto machine = createTargetMachine(target, options.optimize);
  if (!machine)
    return machine.takeError();
  if (!canRunOnHost(target.getArch()))
    return llvm::createStringError("this machine cannot run code for " + stringifyArch(target.getArch()) +
                                   "; it is " + stringifyArch(getHostTarget(source.getContext()).getArch()));

  OwningOpRef<ModuleOp> module = source.clone();
  (*module)->setAttr(AttnDialect::getTargetAttrName(), target);
  prepareContext(module->getContext());
  if (llvm::Error error = runPasses(*module, [](OpPassManager &pm) { pm.addPass(createInlinerPass()); }))
    return std::move(error);
  for (auto function : module->getOps<func::FuncOp>()) {
    if (!function.isPublic() || function.isExternal())
      continue;
    Function &compiled = executable->functions[function.getSymName()];
    compiled.signature = function.getFunctionType();
    compiled.resultSizes = computeResultSizes(function);
  }
  if (llvm::Error error = runPasses(*module, [](OpPassManager &pm) { buildCpuPipeline(pm, {}); }))
    return std::move(error);
  if (options.dumpLowered)
    options.dumpLowered(*module);

  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(*module, llvmContext, "attn");
  if (!llvmModule)
    return llvm::createStringError("the module has no translation to LLVM IR");
  llvmModule->setDataLayout((*machine)->createDataLayout());
  llvmModule->setTargetTriple((*machine)->getTargetTriple());
  // No name of the module's may stand in for a function of the process (a user's @exp for libm's).
  for (llvm::Function &function : *llvmModule)
    if (!function.isDeclaration())
      function.setLinkage(llvm::Function::InternalLinkage);
  for (StringRef name : executable->functions.keys())
    addEntryPoint(*llvmModule->getFunction(name));
  optimize(*llvmModule, **machine, target);
  if (options.dumpOptimized)
    options.dumpOptimized(*llvmModule);
  if (options.keepAssembly) {
    auto text = emit(*llvm::CloneModule(*llvmModule), **machine, llvm::CodeGenFileType::AssemblyFile);
    if (!text)
      return text.takeError();
    executable->assembly = (*text)->getBuffer().str();
  }
  auto object = emit(*llvmModule, **machine, llvm::CodeGenFileType::ObjectFile);
  if (!object)
    return object.takeError();
  executable->object = (*object)->getBuffer().str();

  auto jit = createJit();
  if (!jit)
    return jit.takeError();
  executable->jit = std::move(*jit);
  if (llvm::Error error = executable->jit->addObjectFile(std::move(*object)))
    return std::move(error);
  // What fails in linking is reported to the session; a lookup only says that something has.
  llvm::orc::ExecutionSession &session = executable->jit->getExecutionSession();
  session.setErrorReporter([&](llvm::Error error) { linkError = llvm::toString(std::move(error)); });
  for (auto &[name, function] : executable->functions) {
    auto address = executable->jit->lookup(getEntryPointName(name));
    if (!address) {
      std::string message = llvm::toString(address.takeError());
      return llvm::createStringError("cannot link the compiled code: " +
                                     (linkError.empty() ? message : linkError));
    }
    function.entryPoint = address->toPtr<EntryPoint>();
  }
  session.setErrorReporter([](llvm::Error error) { llvm::consumeError(std::move(error)); });
  return executable;
}

llvm::Error CpuExecutable::run(StringRef name, ArrayRef<Argument> arguments,
                               ArrayRef<BufferRef> results) const {
  auto function = functions.find(name);
  if (function == functions.end())
    return llvm::createStringError("there is no public function @" + name);
  llvm::Expected<CallFrame> frame =
      buildCallFrame(name, function->second.signature, function->second.resultSizes, arguments, results);
  if (!frame)
    return frame.takeError();
  cpu::NumThreadsScope scope(numThreads);
  function->second.entryPoint(frame->data());
  return llvm::Error::success();
}

FunctionType CpuExecutable::getSignature(StringRef name) const {
  auto function = functions.find(name);
  return function == functions.end() ? FunctionType() : function->second.signature;
}

llvm::Expected<StringRef> CpuExecutable::getAssembly() const {
  if (assembly.empty())
    return llvm::createStringError("the assembly was not kept; compile with keepAssembly");
  return StringRef(assembly);
}
