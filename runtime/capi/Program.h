//===- Program.h - a function compiled for one device -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_CAPI_PROGRAM_H
#define ATTN_RUNTIME_CAPI_PROGRAM_H

#include "runtime/Launch.h"
#include "runtime/jit/GpuProgram.h"
#include <map>

namespace attn::capi {

/// What differs between a CPU and a GPU is below; the C functions and the texts are the same for both.
class Program {
public:
  virtual ~Program() = default;

  /// Parameters, results and requirements; of a GPU also the kernels.
  const LaunchPlan &getPlan() const { return plan; }
  const CompileRequest &getRequest() const { return request; }
  /// None for a CPU.
  virtual std::optional<GpuMachine> getMachine() const { return std::nullopt; }
  /// "cpu", "cuda:0", "sm_90a".
  virtual std::string getDevice() const = 0;
  /// DLPack's type of the device, and its number.
  virtual std::pair<int, int> getDlpackDevice() const = 0;

  /// The machine code of what a variant of the plan launches, or of everything.
  virtual Status prepare(const VariantSpec *variant) = 0;
  virtual Status launch(const std::vector<TensorRef> &parameters, const std::vector<TensorRef> &results,
                        void *stream, WorkspaceRef workspace) const = 0;
  virtual StatusOr<int64_t> getWorkspaceBytes(const std::vector<TensorRef> &parameters,
                                              const std::vector<TensorRef> &results) const = 0;
  virtual Status synchronize(void *stream) const = 0;
  /// The machine code of a module of the plan, for what it says of registers.
  virtual StatusOr<CompiledModule> getCompiled(const ModuleSpec &module) = 0;

  /// Made when first asked for, then kept.
  StatusOr<const std::string *> getText(const std::string &name);

protected:
  Program(CompileRequest request, LaunchPlan plan) : request(std::move(request)), plan(std::move(plan)) {}

  CompileRequest request;
  LaunchPlan plan;

private:
  std::mutex textMutex; // of what follows
  std::map<std::string, std::string> texts;
};

StatusOr<std::unique_ptr<Program>> compileForCpu(CompileRequest request, int threads);
/// For the device of that number, or, where `arch` is not empty, for any such GPU. On failure `isUnavailable`
/// tells whether the machine lacks something.
StatusOr<std::unique_ptr<Program>> compileForGpu(CompileRequest request, int device, const std::string &arch,
                                                 bool &isUnavailable);

/// The function with attention lowered to loops, and what it takes and returns.
struct CpuModule {
  EntryPoint entry;
  LaunchPlan plan;
};
llvm::Expected<CpuModule> lowerForCpu(mlir::MLIRContext *context, const CompileRequest &request);

/// See `attn_get_text`.
StatusOr<std::string> makeText(Program &program, const std::string &name);

} // namespace attn::capi

#endif // ATTN_RUNTIME_CAPI_PROGRAM_H
