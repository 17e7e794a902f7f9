//===- Attn.cpp - the C interface --------------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/capi/attn.h"
#include "runtime/capi/Program.h"
#include "llvm/ADT/StringExtras.h"
#include <cstring>

using namespace attn;

struct attn_program {
  std::unique_ptr<capi::Program> program;
  std::vector<std::vector<int64_t>> parameterSizes, resultSizes; // -1 for what a call decides
};

//===----------------------------------------------------------------------===//
// Errors and structs
//===----------------------------------------------------------------------===//

static thread_local std::string lastError;

static attn_status fail(attn_status status, std::string message) {
  lastError = std::move(message);
  return status;
}

static attn_status failArgument(std::string message) { return fail(ATTN_ERROR_ARGUMENT, std::move(message)); }

/// Copies the fields that the caller knows, which an older or newer header gave it.
template <typename T>
static bool readStruct(T &to, const T *from) {
  if (!from)
    return true;
  if (from->struct_size < sizeof(size_t))
    return false;
  std::memcpy(&to, from, std::min(from->struct_size, sizeof(T)));
  return true;
}

const char *attn_get_error(void) { return lastError.c_str(); }

int32_t attn_get_api_version(void) { return 4; }

//===----------------------------------------------------------------------===//
// DLPack
//===----------------------------------------------------------------------===//

namespace {
enum DlpackDevice : int { Cpu = 1, Cuda = 2, CudaHost = 3, CudaManaged = 13 };
enum DlpackCode : uint8_t { Int = 0, UInt = 1, Float = 2, BFloat = 4, Bool = 6 };
} // namespace

static DLDataType getDlpackType(ElementType type) {
  auto make = [&](uint8_t code) {
    return DLDataType{code, static_cast<uint8_t>(8 * getSizeInBytes(type)), 1};
  };
  switch (type) {
  case ElementType::I1:
    return make(Bool);
  case ElementType::I8:
  case ElementType::I16:
  case ElementType::I32:
  case ElementType::I64:
    return make(Int);
  case ElementType::BF16:
    return make(BFloat);
  case ElementType::F16:
  case ElementType::F32:
  case ElementType::F64:
    return make(Float);
  }
  return {};
}

static std::optional<ElementType> getElementType(DLDataType type) {
  for (ElementType element :
       {ElementType::I1, ElementType::I8, ElementType::I16, ElementType::I32, ElementType::I64,
        ElementType::BF16, ElementType::F16, ElementType::F32, ElementType::F64}) {
    DLDataType expected = getDlpackType(element);
    if (type.code == expected.code && type.bits == expected.bits && type.lanes == 1)
      return element;
  }
  return std::nullopt;
}

static std::string printDevice(int type, int number) {
  switch (type) {
  case Cpu:
  case CudaHost:
    return "cpu";
  case Cuda:
  case CudaManaged:
    return "cuda:" + std::to_string(number);
  default:
    return "a device of DLPack's type " + std::to_string(type);
  }
}

namespace {
/// The tensors of a call, with memory for strides that DLPack leaves out.
class CallTensors {
public:
  explicit CallTensors(const attn_program &program) : program(*program.program) {}

  Status addParameters(const DLTensor *const *tensors, int32_t count) {
    const LaunchPlan &plan = program.getPlan();
    return add("parameter", tensors, count, plan.parameters.size(), parameters,
               [&](size_t i) { return std::pair(&plan.parameters[i].name, plan.parameters[i].isScalar); });
  }

  Status addResults(const DLTensor *const *tensors, int32_t count) {
    const LaunchPlan &plan = program.getPlan();
    return add("result", tensors, count, plan.results.size(), results,
               [&](size_t i) { return std::pair(&plan.results[i].name, false); });
  }

  std::vector<TensorRef> parameters, results;

private:
  template <typename Describe>
  Status add(const char *role, const DLTensor *const *tensors, int32_t count, size_t expected,
             std::vector<TensorRef> &refs, Describe describe) {
    auto fail = [&](const std::string &message) {
      return Status::failure("'" + program.getPlan().name + "': " + message);
    };
    if (count < 0 || static_cast<size_t>(count) != expected)
      return fail("got " + std::to_string(count) + " " + role + "s, expected " + std::to_string(expected));
    if (!tensors && expected)
      return fail(std::string("the ") + role + "s are null");
    for (size_t i = 0; i < expected; ++i) {
      auto [name, isScalar] = describe(i);
      TensorRef &ref = refs.emplace_back();
      std::string message = tensors[i] ? convert(*tensors[i], ref, isScalar) : "is null";
      if (!message.empty())
        return fail(std::string(role) + " '" + *name + "' " + message);
    }
    return {};
  }

  /// Says what is wrong.
  std::string convert(const DLTensor &tensor, TensorRef &ref, bool isScalar) {
    std::optional<ElementType> type = getElementType(tensor.dtype);
    if (!type)
      return "has elements of DLPack's type code " + std::to_string(tensor.dtype.code) + " with " +
             std::to_string(tensor.dtype.bits) + " bits in " + std::to_string(tensor.dtype.lanes) +
             " lanes, which is not supported";
    auto [deviceType, deviceNumber] = isScalar ? std::pair<int, int>(Cpu, 0) : program.getDlpackDevice();
    int given = static_cast<int>(tensor.device.device_type);
    bool fits = deviceType == Cpu
                    ? given == Cpu || given == CudaHost
                    : (given == Cuda && tensor.device.device_id == deviceNumber) || given == CudaManaged;
    // A program for no device says so itself.
    if (!fits && deviceNumber >= 0)
      return "is on " + printDevice(given, tensor.device.device_id) + ", expected " +
             printDevice(deviceType, deviceNumber) + (isScalar ? ": it is a scalar" : "");
    if (tensor.ndim < 0 || tensor.ndim > maxRank)
      return "has rank " + std::to_string(tensor.ndim) + ", expected at most " + std::to_string(maxRank);
    if (isScalar && tensor.ndim != 0)
      return "has rank " + std::to_string(tensor.ndim) + ", expected a scalar";
    if (tensor.ndim > 0 && !tensor.shape)
      return "has no shape";
    ref.data = static_cast<char *>(tensor.data) + (tensor.data ? tensor.byte_offset : 0);
    ref.type = *type;
    ref.rank = tensor.ndim;
    ref.sizes = tensor.shape;
    ref.strides = tensor.strides ? tensor.strides : makeStrides(tensor);
    ref.device = std::max(deviceNumber, 0);
    return "";
  }

  const int64_t *makeStrides(const DLTensor &tensor) {
    std::array<int64_t, maxRank> &made = *strides.emplace_back(new std::array<int64_t, maxRank>);
    int64_t stride = 1;
    for (int dim = tensor.ndim; dim-- > 0;) {
      made[dim] = stride;
      stride *= tensor.shape[dim];
    }
    return made.data();
  }

  const capi::Program &program;
  std::vector<std::unique_ptr<std::array<int64_t, maxRank>>> strides;
};
} // namespace

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// The number of "cuda:3", 0 of "cuda", -1 of "cpu".
static std::optional<int> parseDevice(llvm::StringRef device) {
  if (device == "cpu")
    return -1;
  int number = 0;
  if (!device.consume_front("cuda"))
    return std::nullopt;
  if (device.empty())
    return 0;
  if (!device.consume_front(":") || device.getAsInteger(10, number) || number < 0)
    return std::nullopt;
  return number;
}

static std::vector<int64_t> getSizes(const std::vector<Expr> &sizes) {
  std::vector<int64_t> values;
  for (const Expr &size : sizes)
    values.push_back(size.kind == Expr::Kind::Constant ? size.value : -1);
  return values;
}

attn_status attn_compile(const char *module, size_t length, const char *device,
                         const attn_compile_options *given, attn_program **program) {
  if (!module || !device || !program)
    return failArgument("attn_compile: module, device and program must not be null");
  *program = nullptr;
  attn_compile_options options{};
  if (!readStruct(options, given))
    return failArgument("attn_compile: set struct_size of the options to sizeof(attn_compile_options)");
  std::optional<int> number = parseDevice(device);
  if (!number)
    return failArgument("attn_compile: unknown device '" + std::string(device) +
                        "', expected cpu, cuda or cuda:N");
  bool isCpu = *number < 0;
  if (isCpu && options.arch)
    return failArgument("attn_compile: arch names a GPU's architecture; the device is cpu");
  if (!isCpu && options.threads)
    return failArgument("attn_compile: threads is of a CPU; the device is a GPU");
  if (isCpu && (options.family || options.exact_maximum))
    return failArgument("attn_compile: family and exact_maximum are of a GPU; the device is cpu");
  if (options.threads < 0 || options.block_m < 0 || options.block_n < 0 || options.kv_splits < 0)
    return failArgument(
        "attn_compile: threads, block_m, block_n and kv_splits are 0 or positive, 0 to choose");

  if (options.block_lists < -1 || options.block_lists > 1)
    return failArgument("attn_compile: block_lists is -1, 0 or 1");

  CompileRequest request;
  request.text.assign(module, length);
  request.entry = options.entry ? options.entry : "";
  request.backward = options.backward != 0;
  request.blockM = options.block_m;
  request.blockN = options.block_n;
  request.kvSplits = options.kv_splits;
  request.blockLists = options.block_lists;
  request.tf32 = options.tf32 != 0;
  request.deterministic = options.deterministic != 0;
  if (options.family)
    request.family = options.family;
  request.exactMaximum = options.exact_maximum != 0;
  bool isUnavailable = false;
  StatusOr<std::unique_ptr<capi::Program>> compiled =
      isCpu
          ? capi::compileForCpu(std::move(request), options.threads)
          : capi::compileForGpu(std::move(request), *number, options.arch ? options.arch : "", isUnavailable);
  if (!compiled.ok())
    return fail(isUnavailable ? ATTN_ERROR_UNAVAILABLE : ATTN_ERROR_COMPILE, compiled.getMessage());
  auto made = std::make_unique<attn_program>();
  made->program = std::move(*compiled);
  for (const ParameterSpec &parameter : made->program->getPlan().parameters)
    made->parameterSizes.push_back(getSizes(parameter.sizes));
  for (const ResultSpec &result : made->program->getPlan().results)
    made->resultSizes.push_back(getSizes(result.sizes));
  *program = made.release();
  return ATTN_SUCCESS;
}

void attn_destroy(attn_program *program) { delete program; }

attn_status attn_prepare(attn_program *program) { return attn_prepare_variant(program, nullptr); }

attn_status attn_prepare_variant(attn_program *program, const char *variant) {
  if (!program)
    return failArgument("attn_prepare_variant: the program is null");
  const std::vector<VariantSpec> &variants = program->program->getPlan().variants;
  auto found = variants.begin();
  if (variant) {
    found = llvm::find_if(variants, [&](const VariantSpec &each) { return each.name == variant; });
    if (found == variants.end()) {
      std::vector<std::string> names;
      for (const VariantSpec &each : variants)
        names.push_back(each.name);
      return failArgument("attn_prepare_variant: expected a variant of the plan (" +
                          (names.empty() ? "on a CPU there is none" : llvm::join(names, ", ")) + "), got " +
                          variant);
    }
  }
  Status status = program->program->prepare(variant ? &*found : nullptr);
  return status.ok() ? ATTN_SUCCESS : fail(ATTN_ERROR_COMPILE, status.getMessage());
}

//===----------------------------------------------------------------------===//
// What a program is
//===----------------------------------------------------------------------===//

int32_t attn_get_num_parameters(const attn_program *program) {
  return program ? static_cast<int32_t>(program->parameterSizes.size()) : 0;
}

int32_t attn_get_num_results(const attn_program *program) {
  return program ? static_cast<int32_t>(program->resultSizes.size()) : 0;
}

static attn_status writeValue(attn_value *to, const char *name, ElementType type, bool isScalar,
                              const std::vector<int64_t> &sizes) {
  if (to->struct_size < sizeof(size_t))
    return failArgument("set struct_size of the value to sizeof(attn_value)");
  attn_value value{};
  value.struct_size = to->struct_size;
  value.name = name;
  value.type = getDlpackType(type);
  value.is_scalar = isScalar;
  value.rank = static_cast<int32_t>(sizes.size());
  value.sizes = sizes.data();
  std::memcpy(to, &value, std::min(to->struct_size, sizeof(value)));
  return ATTN_SUCCESS;
}

attn_status attn_get_parameter(const attn_program *program, int32_t index, attn_value *value) {
  if (!program || !value || index < 0 || index >= attn_get_num_parameters(program))
    return failArgument("attn_get_parameter: there is no parameter " + std::to_string(index) +
                        ", or a null pointer was passed");
  const ParameterSpec &spec = program->program->getPlan().parameters[index];
  return writeValue(value, spec.name.c_str(), spec.type, spec.isScalar, program->parameterSizes[index]);
}

attn_status attn_get_result(const attn_program *program, int32_t index, attn_value *value) {
  if (!program || !value || index < 0 || index >= attn_get_num_results(program))
    return failArgument("attn_get_result: there is no result " + std::to_string(index) +
                        ", or a null pointer was passed");
  const ResultSpec &spec = program->program->getPlan().results[index];
  return writeValue(value, spec.name.c_str(), spec.type, /*isScalar=*/false, program->resultSizes[index]);
}

attn_status attn_get_text(attn_program *program, const char *name, const char **text) {
  if (!program || !name || !text)
    return failArgument("attn_get_text: program, name and text must not be null");
  StatusOr<const std::string *> made = program->program->getText(name);
  if (!made.ok())
    return fail(ATTN_ERROR_ARGUMENT, made.getMessage());
  *text = (*made)->c_str();
  return ATTN_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

attn_status attn_launch(const attn_program *program, const DLTensor *const *parameters,
                        int32_t num_parameters, const DLTensor *const *results, int32_t num_results,
                        const attn_launch_options *given) {
  if (!program)
    return failArgument("attn_launch: the program is null");
  attn_launch_options options{};
  if (!readStruct(options, given))
    return failArgument("attn_launch: set struct_size of the options to sizeof(attn_launch_options)");
  CallTensors call(*program);
  Status status = call.addParameters(parameters, num_parameters);
  if (status.ok())
    status = call.addResults(results, num_results);
  if (status.ok())
    status = program->program->launch(call.parameters, call.results, options.stream,
                                      {options.workspace, options.workspace_bytes});
  return status.ok() ? ATTN_SUCCESS : fail(ATTN_ERROR_CALL, status.getMessage());
}

attn_status attn_get_result_sizes(const attn_program *program, const DLTensor *const *parameters,
                                  int32_t num_parameters, int32_t result, int64_t *sizes) {
  if (!program || !sizes || result < 0 || result >= attn_get_num_results(program))
    return failArgument("attn_get_result_sizes: there is no result " + std::to_string(result) +
                        ", or a null pointer was passed");
  CallTensors call(*program);
  if (Status status = call.addParameters(parameters, num_parameters); !status.ok())
    return fail(ATTN_ERROR_CALL, status.getMessage());
  const LaunchPlan &plan = program->program->getPlan();
  // An expression may read any size of a parameter.
  for (size_t i = 0; i < call.parameters.size(); ++i)
    if (static_cast<size_t>(call.parameters[i].rank) != plan.parameters[i].sizes.size())
      return fail(ATTN_ERROR_CALL, "'" + plan.name + "': parameter '" + plan.parameters[i].name +
                                       "' has rank " + std::to_string(call.parameters[i].rank) +
                                       ", expected " + std::to_string(plan.parameters[i].sizes.size()));
  EvaluationContext context{call.parameters.data(), nullptr, /*multiprocessors=*/1};
  for (const Expr &size : plan.results[result].sizes) {
    StatusOr<int64_t> value = evaluate(size, context);
    if (!value.ok())
      return fail(ATTN_ERROR_CALL,
                  "'" + plan.name + "': a size of '" + plan.results[result].name + "' " + value.getMessage());
    *sizes++ = *value;
  }
  return ATTN_SUCCESS;
}

attn_status attn_get_workspace_bytes(const attn_program *program, const DLTensor *const *parameters,
                                     int32_t num_parameters, const DLTensor *const *results,
                                     int32_t num_results, int64_t *bytes) {
  if (!program || !bytes)
    return failArgument("attn_get_workspace_bytes: program and bytes must not be null");
  CallTensors call(*program);
  Status status = call.addParameters(parameters, num_parameters);
  if (status.ok())
    status = call.addResults(results, num_results);
  if (!status.ok())
    return fail(ATTN_ERROR_CALL, status.getMessage());
  StatusOr<int64_t> needed = program->program->getWorkspaceBytes(call.parameters, call.results);
  if (!needed.ok())
    return fail(ATTN_ERROR_CALL, needed.getMessage());
  *bytes = *needed;
  return ATTN_SUCCESS;
}

attn_status attn_synchronize(const attn_program *program, void *stream) {
  if (!program)
    return failArgument("attn_synchronize: the program is null");
  Status status = program->program->synchronize(stream);
  return status.ok() ? ATTN_SUCCESS : fail(ATTN_ERROR_CALL, status.getMessage());
}
