//===- Tune.cpp - searches the schedule of a GPU kernel ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/attn-bench/Tune.h"
#include "passes/MeasuredSchedules.h"
#include "tools/attn-bench/Statistics.h"
#include "tools/common/Inputs.h"
#include "llvm/Support/Chrono.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Parallel.h"
#include <mutex>
#include <random>

using namespace mlir;
using namespace attn;

/// After so many rounds, what is slower than this part of the fastest is not timed any more.
constexpr int kFirstRounds = 3;
constexpr double kHopeful = 0.92;
/// What another tile has to gain.
constexpr double kLeastGain = 0.01;

namespace {
/// One kernel: a candidate compiled for one module.
struct Build {
  LaunchPlan plan;
  std::string failure;
  std::string problem; // that it spills, or a warning
  int64_t registers = 0;
};

struct Candidate : MeasuredTile {
  std::map<std::string, Build> builds; // by the module's text
  double logSpeed = 0;
  bool isPresent = false, isRule = false;
};

struct TunedClass {
  ScheduleClass key;
  std::vector<BenchCase> cases;
  std::vector<Candidate> candidates;
};

class Tuner {
public:
  static llvm::Expected<Tuner> create(MLIRContext *context, const ProgramOptions &options, int repeats);
  llvm::Error add(const BenchCase &benchCase);
  void compile();
  llvm::Error measure(TunedClass &tuned);
  MeasuredSchedule choose(TunedClass &tuned) const;
  std::vector<TunedClass> classes;

private:
  void build(const BenchCase &benchCase, ScheduleFamily family, const MeasuredTile &tile, Build &result);
  llvm::Error measure(TunedClass &tuned, const BenchCase &benchCase);

  MLIRContext *context = nullptr;
  ProgramOptions options;
  int repeats = 0;
  GpuMachine machine;
  DeviceInfo device;
  std::string driver;
  std::shared_ptr<KernelCompiler> compiler;
};
} // namespace

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

llvm::Expected<Tuner> Tuner::create(MLIRContext *context, const ProgramOptions &options, int repeats) {
  auto fail = [](const Status &status) { return makeError("--tune: %s", status.getMessage().c_str()); };
  Tuner tuner;
  tuner.context = context;
  tuner.options = options;
  // Only calls that one variant is for are timed.
  tuner.options.lowering.kvSplits = 1;
  tuner.repeats = repeats;
  StatusOr<const CudaDriver *> driver = CudaDriver::get();
  if (!driver.ok())
    return fail(driver.getStatus());
  StatusOr<DeviceInfo> device = (*driver)->query(*options.gpu);
  if (!device.ok())
    return fail(device.getStatus());
  tuner.device = *device;
  tuner.machine = GpuMachine::get(*device);
  int version = 0, kilohertz = 0;
  (void)(*driver)->driverGetVersion(&version);
  (void)(*driver)->deviceGetAttribute(&kilohertz, cuda::ClockKilohertz, *options.gpu);
  tuner.driver = llvm::formatv("CUDA {0}.{1}, clock of at most {2} MHz", version / 1000, version % 1000 / 10,
                               kilohertz / 1000);
  llvm::Expected<std::shared_ptr<KernelCompiler>> compiler = getKernelCompiler();
  if (!compiler)
    return compiler.takeError();
  tuner.compiler = std::move(*compiler);
  return std::move(tuner);
}

llvm::Error Tuner::add(const BenchCase &benchCase) {
  llvm::Expected<EntryPoint> entry = benchCase.parse(context);
  if (!entry)
    return entry.takeError();
  llvm::Expected<TargetAttr> target = getTarget(context, machine);
  if (!target)
    return target.takeError();
  KernelKind kind = benchCase.backward ? KernelKind::fused : KernelKind::forward;
  ShapeClass shape = ShapeClass::get(entry->getAttentionOps().front(), kind);
  ScheduleOverrides overrides;
  overrides.family = symbolizeScheduleFamily(options.lowering.family);
  overrides.exactMaximum = options.lowering.exactMaximum;
  overrides.shortLengths = !benchCase.backward && benchCase.qLen <= kShortLength;
  FirstDiagnostic diagnostic(context);
  auto choose = [&] {
    return chooseGpuSchedule([&] { return mlir::emitError(entry->getFunction().getLoc()); }, shape, *target,
                             overrides);
  };
  FailureOr<ScheduleChoice> present = choose();
  overrides.measured = {};
  FailureOr<ScheduleChoice> rule = choose();
  if (failed(present) || failed(rule))
    return diagnostic.take("no schedule is chosen");
  ScheduleFamily family = present->schedule.getFamily();
  ScheduleClass key = ScheduleClass::get(shape, *target, overrides, family);
  auto found = llvm::find_if(classes, [&](const TunedClass &tuned) { return tuned.key == key; });
  if (found != classes.end()) {
    found->cases.push_back(benchCase);
    return llvm::Error::success();
  }
  TunedClass tuned{key, {benchCase}, {}};
  auto toMeasured = [](const ScheduleCandidate &candidate) {
    Candidate result;
    result.tile = candidate.getTile();
    result.exactMaximum = candidate.exactMaximum;
    return result;
  };
  // Probabilities of f16 are always relative to the exact maximum.
  for (const ScheduleCandidate &candidate :
       listGpuCandidates(shape, *target, overrides, family, /*bothMaxima=*/benchCase.dtype == "bf16"))
    if (candidate.rejection.empty())
      tuned.candidates.push_back(toMeasured(candidate));
  auto mark = [&](const ScheduleCandidate &chosen, bool Candidate::*flag) {
    Candidate wanted = toMeasured(chosen);
    auto same = llvm::find_if(tuned.candidates, [&](const Candidate &other) { return other.isSame(wanted); });
    if (same == tuned.candidates.end())
      same = tuned.candidates.insert(same, wanted);
    (*same).*flag = true;
  };
  mark(present->candidates.back(), &Candidate::isPresent);
  mark(rule->candidates.back(), &Candidate::isRule);
  classes.push_back(std::move(tuned));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

void Tuner::build(const BenchCase &benchCase, ScheduleFamily family, const MeasuredTile &measured,
                  Build &result) {
  // Contexts are not shared by threads that make attributes all the time.
  DialectRegistry registry;
  registerToolDialects(registry);
  MLIRContext own(registry, MLIRContext::Threading::DISABLED);
  LoweringSettings lowering = options.lowering;
  const GpuTile &tile = measured.tile;
  lowering.family = stringifyScheduleFamily(family).str();
  lowering.tile = {tile.blockM, tile.blockN, tile.warps, tile.blocksPerMultiprocessor, tile.stages};
  lowering.exactMaximum = measured.exactMaximum;
  auto run = [&]() -> llvm::Error {
    llvm::Expected<EntryPoint> entry = benchCase.parse(&own);
    if (!entry)
      return entry.takeError();
    llvm::Expected<LaunchPlan> plan = makeLaunchPlan(*entry, machine, lowering);
    if (!plan)
      return plan.takeError();
    result.plan = std::move(*plan);
    // The variant for tensors that are aligned is the first.
    for (const LaunchSpec &launch : result.plan.variants.front().launches) {
      StatusOr<CompiledModule> compiled =
          compiler->compile(result.plan.name, result.plan.modules[launch.module], machine.arch);
      if (!compiled.ok())
        return makeError("%s", compiled.getMessage().c_str());
      // Other kernels, as that which repairs rows, are the same for all tiles.
      if (launch.threads != 32 * tile.warps)
        continue;
      CompileReport report = compiled->getReport();
      llvm::erase_if(report.functions,
                     [&](const FunctionUsage &usage) { return usage.name != launch.kernel; });
      for (const FunctionUsage &usage : report.functions)
        result.registers = std::max<int64_t>(result.registers, usage.registers);
      if (std::vector<std::string> problems = report.findProblems(); !problems.empty())
        result.problem = StringRef(problems.front()).trim();
    }
    return llvm::Error::success();
  };
  if (llvm::Error error = run())
    result.failure = llvm::toString(std::move(error));
}

void Tuner::compile() {
  struct Task {
    const BenchCase *benchCase;
    ScheduleFamily family;
    const MeasuredTile *tile;
    Build *build;
  };
  std::vector<Task> tasks;
  for (TunedClass &tuned : classes)
    for (const BenchCase &benchCase : tuned.cases)
      for (Candidate &candidate : tuned.candidates)
        if (auto [build, isNew] = candidate.builds.try_emplace(benchCase.getModule()); isNew)
          tasks.push_back({&benchCase, tuned.key.family, &candidate, &build->second});
  size_t done = 0;
  std::mutex mutex; // of the number, and of the stream
  llvm::parallelFor(0, tasks.size(), [&](size_t index) {
    const Task &task = tasks[index];
    build(*task.benchCase, task.family, *task.tile, *task.build);
    std::lock_guard<std::mutex> lock(mutex);
    llvm::errs() << llvm::formatv("\rcompiled {0} of {1} kernels", ++done, tasks.size());
  });
  llvm::errs() << '\n';
  for (TunedClass &tuned : classes)
    for (Candidate &candidate : tuned.candidates)
      for (auto &[module, build] : candidate.builds) {
        candidate.registers = std::max(candidate.registers, build.registers);
        if (candidate.rejection.empty())
          candidate.rejection = build.failure;
        // The present choice is what the others are compared with, whatever it is like.
        if (candidate.isPresent && !build.problem.empty())
          llvm::errs() << tuned.key.toString() << ": the present choice: " << build.problem << '\n';
        else if (candidate.rejection.empty())
          candidate.rejection = build.problem;
      }
}

//===----------------------------------------------------------------------===//
// Measurement
//===----------------------------------------------------------------------===//

/// Some elements of all rows of the results.
static std::vector<double> sample(ArrayRef<HostTensor> results) {
  constexpr int64_t step = 29; // no divisor of a row
  std::vector<double> values;
  for (const HostTensor &result : results)
    for (int64_t index = 0; index < result.getNumElements(); index += result.getShape().size() < 4 ? 1 : step)
      values.push_back(result.get(index));
  return values;
}

/// Both are rounded, and sums are of another order: each may be off by a few units in the last place of bf16.
static bool areClose(ArrayRef<double> values, ArrayRef<double> expected) {
  double squares = 0;
  int64_t numFinite = 0;
  for (double value : expected)
    if (std::isfinite(value)) {
      squares += value * value;
      ++numFinite;
    }
  double typical = std::sqrt(squares / static_cast<double>(std::max<int64_t>(numFinite, 1)));
  constexpr double tolerance = 1.0 / 16;
  return llvm::all_of(llvm::zip_equal(values, expected), [&](auto pair) {
    auto [value, wanted] = pair;
    return value == wanted || std::abs(value - wanted) <= tolerance * std::max(std::abs(wanted), typical);
  });
}

llvm::Error Tuner::measure(TunedClass &tuned, const BenchCase &benchCase) {
  llvm::Expected<EntryPoint> entry = benchCase.parse(context);
  if (!entry)
    return entry.takeError();
  SizeResolver sizes(*entry);
  llvm::Expected<BenchTensors> tensors =
      BenchTensors::create(*entry, sizes, benchCase.getRequest(), /*forGpu=*/true);
  if (!tensors)
    return tensors.takeError();

  struct Timed {
    Candidate *candidate;
    GpuFunction function;
    std::vector<double> seconds;
  };
  std::vector<Timed> timed;
  std::optional<GpuCall> call;
  std::vector<double> expected;
  // The present tile comes first.
  std::vector<Candidate *> order;
  for (Candidate &candidate : tuned.candidates)
    if (candidate.rejection.empty())
      order.push_back(&candidate);
  auto present = llvm::find_if(order, [](Candidate *each) { return each->isPresent; });
  if (present == order.end())
    return makeError(
        "%s: the schedule that is chosen at present does not compile: %s", benchCase.getName().c_str(),
        llvm::find_if(tuned.candidates, [](const Candidate &c) { return c.isPresent; })->rejection.c_str());
  std::swap(*present, order.front());
  for (Candidate *candidate : order) {
    const LaunchPlan &plan = candidate->builds.at(benchCase.getModule()).plan;
    llvm::Expected<CallTensors> described = CallTensors::create(plan, sizes);
    if (!described)
      return described.takeError();
    llvm::Expected<GpuFunction> function =
        GpuFunction::compile({machine, plan, std::move(*described), compiler}, *options.gpu);
    if (!function)
      return function.takeError();
    if (!call) {
      llvm::Expected<GpuCall> prepared = function->prepare(tensors->getArguments());
      if (!prepared)
        return prepared.takeError();
      call = std::move(*prepared);
    } else if (llvm::Error error = call->take(*function)) {
      return error;
    }
    if (llvm::Error error = call->launch())
      return error;
    if (llvm::Error error = call->read(tensors->results))
      return error;
    std::vector<double> values = sample(tensors->results);
    if (candidate->isPresent)
      expected = values;
    if (areClose(values, expected))
      timed.push_back({candidate, std::move(*function), {}});
    else
      candidate->rejection =
          "its results for " + benchCase.getName() + " differ from those of the present choice";
  }
  if (timed.empty() || !timed.front().candidate->isPresent)
    return makeError("%s: the schedule that is chosen at present computes NaN", benchCase.getName().c_str());

  std::mt19937 generator(0);
  std::vector<Timed *> running;
  for (Timed &each : timed)
    running.push_back(&each);
  for (int round = 0; round < repeats; ++round) {
    std::shuffle(running.begin(), running.end(), generator);
    for (Timed *each : running) {
      if (llvm::Error error = call->take(each->function))
        return error;
      llvm::Expected<double> seconds = call->time();
      if (!seconds)
        return seconds.takeError();
      each->seconds.push_back(*seconds);
    }
    if (round + 1 != kFirstRounds)
      continue;
    double least = std::numeric_limits<double>::infinity();
    for (Timed *each : running)
      least = std::min(least, getMedian(each->seconds));
    llvm::erase_if(running, [&](Timed *each) {
      return !each->candidate->isPresent && !each->candidate->isRule &&
             least < kHopeful * getMedian(each->seconds);
    });
  }
  for (Timed &each : timed) {
    Candidate &candidate = *each.candidate;
    candidate.logSpeed += std::log(benchCase.getFlops() / getMedian(each.seconds) * 1e-12);
    candidate.spread = std::max(candidate.spread, getSpread(each.seconds));
  }
  return llvm::Error::success();
}

llvm::Error Tuner::measure(TunedClass &tuned) {
  for (const BenchCase &benchCase : tuned.cases)
    if (llvm::Error error = measure(tuned, benchCase))
      return error;
  for (Candidate &candidate : tuned.candidates)
    if (candidate.rejection.empty())
      candidate.speed = std::exp(candidate.logSpeed / static_cast<double>(tuned.cases.size()));
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

MeasuredSchedule Tuner::choose(TunedClass &tuned) const {
  llvm::sort(tuned.candidates, [](const Candidate &a, const Candidate &b) {
    auto key = [](const Candidate &each) {
      return std::tuple(-each.speed, each.tile.blockM, each.tile.blockN, each.exactMaximum, each.tile.warps,
                        each.tile.blocksPerMultiprocessor, each.tile.stages);
    };
    return key(a) < key(b);
  });
  auto find = [&](auto predicate) { return &*llvm::find_if(tuned.candidates, predicate); };
  const Candidate *present = find([](const Candidate &each) { return each.isPresent; });
  const Candidate *rule = find([](const Candidate &each) { return each.isRule; });
  const Candidate *best = &tuned.candidates.front();
  double needed = 1 + std::max({kLeastGain, best->spread, present->spread});
  if (best->speed < present->speed * needed)
    best = present;
  const Candidate *other = rule;
  if (best == rule || !rule->rejection.empty())
    other = find([&](const Candidate &each) {
      return (&each != best && each.rejection.empty()) || &each == &tuned.candidates.back();
    });
  MeasuredSchedule result;
  result.key = tuned.key;
  result.best = *best;
  result.other = *other;
  result.device = device.name;
  result.driver = driver;
  result.date = llvm::formatv("{0:%Y-%m-%d}", std::chrono::system_clock::now());
  result.cases =
      llvm::join(llvm::map_range(tuned.cases, [](const BenchCase &each) { return each.getName(); }), ", ");
  result.candidates.assign(tuned.candidates.begin(), tuned.candidates.end());
  return result;
}

static void print(llvm::raw_ostream &os, const TunedClass &tuned, const MeasuredSchedule &chosen) {
  const Candidate *present =
      &*llvm::find_if(tuned.candidates, [](const Candidate &each) { return each.isPresent; });
  os << '\n' << tuned.key.toString() << "\n  " << chosen.cases << '\n';
  os << "  TFLOP/s  of present  spread  registers  tile\n";
  for (const Candidate &candidate : tuned.candidates) {
    std::string tile = candidate.toString(tuned.key.family);
    if (!candidate.rejection.empty()) {
      os << "  rejected " << tile << ": " << candidate.rejection << '\n';
      continue;
    }
    os << llvm::formatv("  {0,7:F1}  {1,10:F3}  {2,5:F1}%  {3,9}  {4}{5}{6}\n", candidate.speed,
                        candidate.speed / present->speed, 100 * candidate.spread, candidate.registers, tile,
                        candidate.isPresent ? ", the present choice" : "",
                        candidate.isSame(chosen.best) ? ", chosen" : "");
  }
}

static llvm::Expected<std::vector<MeasuredSchedule>> readTable(StringRef path) {
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> text = llvm::MemoryBuffer::getFile(path);
  if (!text && text.getError() == std::errc::no_such_file_or_directory)
    return std::vector<MeasuredSchedule>();
  if (!text)
    return makeError("%s: %s", path.str().c_str(), text.getError().message().c_str());
  llvm::Expected<std::vector<MeasuredSchedule>> table = readMeasured((*text)->getBuffer());
  if (!table)
    return makeError("%s: %s", path.str().c_str(), llvm::toString(table.takeError()).c_str());
  return table;
}

static llvm::Error writeTable(StringRef path, ArrayRef<MeasuredSchedule> table) {
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
    writeMeasured(os, table);
    return llvm::Error::success();
  });
  return error ? makeError("%s: %s", path.str().c_str(), llvm::toString(std::move(error)).c_str())
               : llvm::Error::success();
}

llvm::Error attn::tune(MLIRContext *context, ArrayRef<BenchCase> cases, const ProgramOptions &options,
                       int repeats, StringRef path) {
  std::vector<MeasuredSchedule> table;
  if (!path.empty()) {
    llvm::Expected<std::vector<MeasuredSchedule>> old = readTable(path);
    if (!old)
      return old.takeError();
    table = std::move(*old);
  }
  llvm::Expected<Tuner> tuner = Tuner::create(context, options, repeats);
  if (!tuner)
    return tuner.takeError();
  for (const BenchCase &benchCase : cases)
    if (llvm::Error error = tuner->add(benchCase))
      return error;
  tuner->compile();
  llvm::Error failures = llvm::Error::success();
  for (TunedClass &tuned : tuner->classes) {
    if (llvm::Error error = tuner->measure(tuned)) {
      failures = llvm::joinErrors(std::move(failures), std::move(error));
      continue;
    }
    MeasuredSchedule chosen = tuner->choose(tuned);
    print(llvm::outs(), tuned, chosen);
    llvm::outs().flush();
    auto entry = llvm::find_if(table, [&](const MeasuredSchedule &each) { return each.key == chosen.key; });
    if (entry == table.end())
      table.push_back(std::move(chosen));
    else
      *entry = std::move(chosen);
    // Each time, so that nothing is lost when a later one fails.
    if (!path.empty())
      if (llvm::Error error = writeTable(path, table))
        return llvm::joinErrors(std::move(failures), std::move(error));
  }
  return failures;
}
