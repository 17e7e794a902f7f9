//===- attn-bench.cpp - times compiled attention on this machine -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The clock of a machine drifts by tens of percent within seconds. So what is compared is timed in turns:
// each iteration calls the attention once, measures the peak once and, for a causal case, calls the full
// attention once; medians of the ratios are reported. On a GPU each call comes after an idle gap instead
// (tools/common/GpuTimer.h).
//
//===----------------------------------------------------------------------===//

#include "tools/attn-bench/Cases.h"
#include "tools/attn-bench/Statistics.h"
#include "tools/attn-bench/Tune.h"
#include "tools/common/Inputs.h"
#include "tools/common/MachinePeak.h"
#include "llvm/Support/CommandLine.h"
#include <benchmark/benchmark.h>

using namespace mlir;
using namespace attn;
namespace cl = llvm::cl;

static cl::OptionCategory category("attn-bench options");
static cl::opt<std::string> inputFile(cl::Positional, cl::desc("[FILE.mlir]"), cl::cat(category));
static cl::opt<std::string> entryName("entry", cl::desc("Function of the file to time"), cl::cat(category));
static cl::list<int64_t> lengths("n", cl::desc("Queries and keys (default 2048; on a GPU 4096)"),
                                 cl::CommaSeparated, cl::cat(category));
static cl::opt<int64_t> kvLen("kv-len", cl::desc("Keys, where not as many as queries"), cl::cat(category));
static cl::list<int64_t> headDims("d", cl::desc("Head dimension (default 64; on a GPU 128)"),
                                  cl::CommaSeparated, cl::cat(category));
static cl::list<std::string> dtypes("dtype", cl::desc("f32, bf16, f16 or f64 (default f32; on a GPU bf16)"),
                                    cl::CommaSeparated, cl::cat(category));
static cl::opt<int64_t>
    batch("batch", cl::desc("Batch entries (default 1; on a GPU such that there are 16384 tokens)"),
          cl::cat(category));
static cl::opt<int64_t> heads("heads", cl::desc("Query heads (default 1; on a GPU hidden size 2048)"),
                              cl::cat(category));
static cl::opt<int64_t> kvHeads("kv-heads", cl::desc("Key and value heads (default: as many as query heads)"),
                                cl::cat(category));
static cl::opt<bool> causal("causal",
                            cl::desc("Time causal attention, too, and how much of the full one it takes"),
                            cl::cat(category));
static cl::list<std::string> mods("mods",
                                  cl::desc("What is done to scores: full, causal, soft_cap, alibi (causal), "
                                           "window (causal, 1024 keys); default full"),
                                  cl::CommaSeparated, cl::cat(category));
static cl::opt<bool> backward("backward",
                              cl::desc("Time the gradients, too (of a file, and with --tune: instead)"),
                              cl::cat(category));
static cl::opt<std::string> target("target",
                                   cl::desc("host, x86-64, x86-64-v3 (AVX2) or x86-64-v4 (AVX-512)"),
                                   cl::init("host"), cl::cat(category));
static cl::opt<std::string> gpuNumber("gpu", cl::ValueOptional, cl::value_desc("N"),
                                      cl::desc("Time on CUDA device N (0 if not given) instead of a CPU"),
                                      cl::cat(category));
static cl::opt<int> repeats("repeats", cl::desc("Timed runs of each case on a GPU"), cl::init(9),
                            cl::cat(category));
static cl::opt<bool> tunes("tune",
                           cl::desc("Compile and time all schedules of GPU kernels for each case (default: "
                                    "--n 1024,4096, --d 64,128,256, all mods), and print which are the best"),
                           cl::cat(category));
static cl::opt<std::string> tablePath("write", cl::value_desc("FILE.json"),
                                      cl::desc("With --tune: put what was measured in this table; the "
                                               "compiler's is passes/MeasuredSchedules.json, built in"),
                                      cl::cat(category));
static cl::opt<int> threads("threads", cl::desc("Threads; 0 for all"), cl::init(1), cl::cat(category));
static cl::opt<int64_t> blockM("block-m", cl::desc("Queries in a block"), cl::init(0), cl::cat(category));
static cl::opt<int64_t> blockN("block-n", cl::desc("Keys in a block"), cl::init(0), cl::cat(category));
static cl::opt<std::string> family("family",
                                   cl::desc("What GPU kernels are made of: portable, hopper (sm_90a), or "
                                            "auto for the fastest that can be"),
                                   cl::init("auto"), cl::cat(category));
static cl::opt<bool>
    exactMaximum("exact-maximum",
                 cl::desc("Hopper family: probabilities are relative to the true maximum of their row"),
                 cl::cat(category));
static cl::opt<std::string> order("order", cl::desc("query-outer or key-outer (forward only)"),
                                  cl::init("query-outer"), cl::cat(category));

constexpr const char *overview = R"(times compiled attention on this machine

GFLOP/s counts the matrix products over the kept pairs (2 forward, 5 backward); for a file, those that the plan computes.
%peak compares them with packed fused multiply-adds in registers, measured in turns with the attention.
On a GPU, TFLOP/s of the median of runs that each come after an idle gap and with a cold L2 cache; launch_us is what the
host takes to launch one.
Options of Google Benchmark (--benchmark_format=json, --benchmark_min_time=2, --benchmark_filter=…) are passed on.

examples:
  attn-bench --n 512,2048 --causal --backward
  attn-bench --target x86-64-v3 --dtype f32,bf16
  attn-bench alibi.mlir --threads 0 --benchmark_format=json
  attn-bench --gpu --d 64,128 --n 1024,4096,16384 --causal --backward
  attn-bench --gpu --mods full,soft_cap,alibi,window --benchmark_format=json
  attn-bench --tune --d 64,128 --mods full,causal --write passes/MeasuredSchedules.json
)";

/// Google Benchmark reports errors but does not return them.
static bool anyFailed = false;

/// What is made anew for each benchmark, so that one case's tensors do not stay in memory during the next.
using MakeRun = std::function<llvm::Expected<BenchRun>()>;

static void fail(benchmark::State &state, llvm::Error error) {
  anyFailed = true;
  state.SkipWithError(llvm::toString(std::move(error)).c_str());
}

static void runGpuBenchmark(benchmark::State &state, const MakeRun &makeRun) {
  llvm::Expected<BenchRun> run = makeRun();
  if (!run)
    return fail(state, run.takeError());
  std::vector<double> seconds;
  for (auto _ : state) {
    llvm::Expected<double> time = run->time();
    if (!time)
      return fail(state, time.takeError());
    seconds.push_back(*time);
    state.SetIterationTime(*time);
  }
  llvm::Expected<double> launch = run->timeLaunch();
  if (!launch)
    return fail(state, launch.takeError());
  state.counters["TFLOP/s"] = run->getFlops() / getMedian(seconds) * 1e-12;
  state.counters["median_ms"] = 1e3 * getMedian(seconds);
  state.counters["spread%"] = 100 * getSpread(seconds);
  state.counters["launch_us"] = 1e6 * *launch;
}

static void runBenchmark(benchmark::State &state, const MakeRun &makeRun, const MakeRun &makeFull,
                         const ProgramOptions &options) {
  llvm::Expected<BenchRun> run = makeRun();
  if (!run)
    return fail(state, run.takeError());
  std::optional<BenchRun> full;
  if (makeFull) {
    llvm::Expected<BenchRun> made = makeFull();
    if (!made)
      return fail(state, made.takeError());
    full = std::move(*made);
  }
  llvm::Expected<FmaPeak> peak =
      FmaPeak::create(run->getComputeType().getContext(), run->getComputeType(), options);
  if (!peak)
    return fail(state, peak.takeError());

  double numThreads = options.getNumThreads();
  std::vector<double> seconds, peaks, fractions, ratios;
  for (auto _ : state) {
    double before = peak->measure();
    double time = llvm::cantFail(run->time());
    double machine = (before + peak->measure()) / 2 * numThreads;
    seconds.push_back(time);
    peaks.push_back(machine);
    fractions.push_back(run->getFlops() / time / machine);
    if (full)
      ratios.push_back(time / llvm::cantFail(full->time()));
    state.SetIterationTime(time);
  }
  state.counters["GFLOP/s"] = run->getFlops() / getMedian(seconds) * 1e-9;
  state.counters["peak"] = getMedian(peaks) * 1e-9;
  state.counters["%peak"] = 100 * getMedian(fractions);
  state.counters["median_ms"] = 1e3 * getMedian(seconds);
  state.counters["spread%"] = 100 * getSpread(seconds);
  if (full)
    state.counters["causal/full"] = getMedian(ratios);
}

static void registerCase(const std::string &name, MakeRun run, MakeRun full, const ProgramOptions &options) {
  if (options.gpu) {
    benchmark::RegisterBenchmark(
        name.c_str(), [run = std::move(run)](benchmark::State &state) { runGpuBenchmark(state, run); })
        ->UseManualTime()
        ->Iterations(repeats)
        ->Unit(benchmark::kMillisecond);
    return;
  }
  benchmark::RegisterBenchmark(name.c_str(),
                               [run = std::move(run), full = std::move(full), options](
                                   benchmark::State &state) { runBenchmark(state, run, full, options); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

static std::vector<BenchCase> makeCases(bool onGpu) {
  auto orDefault = [](const auto &list, auto... values) {
    return list.empty() ? std::vector{values...} : std::vector(list.begin(), list.end());
  };
  std::vector<bool> directions{tunes && backward};
  if (backward && !tunes)
    directions.push_back(true);
  std::vector<std::string> caseMods = orDefault(mods, std::string("full"));
  std::vector<int64_t> caseDims = orDefault(headDims, int64_t(onGpu ? 128 : 64));
  std::vector<int64_t> caseLengths = orDefault(lengths, int64_t(onGpu ? 4096 : 2048));
  if (tunes) {
    caseMods = orDefault(mods, std::string("full"), std::string("causal"), std::string("soft_cap"),
                         std::string("alibi"), std::string("window"));
    caseDims = orDefault(headDims, int64_t(64), int64_t(128), int64_t(256));
    caseLengths = orDefault(lengths, int64_t(1024), int64_t(4096));
  }
  if (causal && !llvm::is_contained(caseMods, "causal"))
    caseMods.push_back("causal");
  std::vector<BenchCase> cases;
  for (const std::string &dtype : orDefault(dtypes, std::string(onGpu ? "bf16" : "f32")))
    for (int64_t headDim : caseDims)
      for (int64_t length : caseLengths)
        for (bool isBackward : directions)
          for (const std::string &mod : caseMods) {
            BenchCase benchCase;
            benchCase.batch = batch.getNumOccurrences() ? batch
                              : onGpu                   ? std::max<int64_t>(16384 / length, 1)
                                                        : 1;
            benchCase.qHeads = heads.getNumOccurrences() ? heads
                               : onGpu                   ? std::max<int64_t>(2048 / headDim, 1)
                                                         : 1;
            benchCase.kvHeads = kvHeads.getNumOccurrences() ? kvHeads : benchCase.qHeads;
            benchCase.qLen = length;
            benchCase.kvLen = kvLen.getNumOccurrences() ? kvLen : length;
            benchCase.headDim = headDim;
            benchCase.dtype = dtype;
            benchCase.mod = mod;
            benchCase.backward = isBackward;
            cases.push_back(std::move(benchCase));
          }
  return cases;
}

static void registerCases(MLIRContext *context, const ProgramOptions &options) {
  for (const BenchCase &benchCase : makeCases(options.gpu.has_value())) {
    BenchCase fullCase = benchCase;
    fullCase.mod = "full";
    MakeRun full;
    if (benchCase.mod == "causal")
      full = [context, fullCase, options] { return BenchRun::create(context, fullCase, options); };
    registerCase(
        benchCase.getName(),
        [context, benchCase, options] { return BenchRun::create(context, benchCase, options); }, full,
        options);
  }
}

static llvm::Error configure(ProgramOptions &options) {
  options.target = target;
  options.threads = threads;
  if (tunes && (!inputFile.empty() || blockM || blockN || exactMaximum))
    return makeError("--tune is for generated cases, and chooses what --block-m, --block-n and "
                     "--exact-maximum say");
  if (tunes && llvm::is_contained(dtypes, "f16"))
    return makeError("--tune: f16 takes the schedules of bf16; tune those (--dtype bf16)");
  if (tablePath.getNumOccurrences() && !tunes)
    return makeError("--write is for --tune");
  if (gpuNumber.getNumOccurrences() || tunes) {
    if (target.getNumOccurrences() || threads.getNumOccurrences())
      return makeError("--target and --threads are for a CPU, not with --gpu or --tune");
    llvm::Expected<int> device = parseDevice(gpuNumber);
    if (!device)
      return device.takeError();
    options.gpu = *device;
    if (llvm::Expected<std::optional<GpuMachine>> machine = getGpuMachine(options); !machine) {
      if (!tunes)
        return machine.takeError();
      return makeError(
          "--tune times on a GPU: run it where one is, and bring the table that --write makes (%s)",
          llvm::toString(machine.takeError()).c_str());
    }
  } else if (repeats.getNumOccurrences()) {
    return makeError("--repeats is for --gpu; a CPU takes --benchmark_min_time");
  } else if (family.getNumOccurrences() || exactMaximum) {
    return makeError("--family and --exact-maximum are for --gpu");
  }
  if (repeats < 1)
    return makeError("--repeats: expected at least 1, got %d", repeats.getValue());
  options.lowering.blockM = blockM;
  options.lowering.blockN = blockN;
  options.lowering.family = family;
  options.lowering.exactMaximum = exactMaximum;
  if (threads < 0)
    return makeError("--threads: expected at least 0, got %d", threads.getValue());
  if (order != "query-outer" && order != "key-outer")
    return makeError("--order: expected query-outer or key-outer, got '%s'", order.c_str());
  options.lowering.order = order == "key-outer" ? LoopOrder::key_outer : LoopOrder::query_outer;
  for (const std::string &dtype : dtypes)
    if (dtype != "f32" && dtype != "bf16" && dtype != "f16" && dtype != "f64")
      return makeError("--dtype: expected f32, bf16, f16 or f64, got '%s'", dtype.c_str());
  for (const std::string &mod : mods)
    if (!llvm::is_contained(getBenchMods(), mod))
      return makeError("--mods: expected full, causal, soft_cap, alibi or window, got '%s'", mod.c_str());
  for (int64_t length : lengths)
    if (length < 1)
      return makeError("--n: expected at least 1, got %lld", static_cast<long long>(length));
  const cl::opt<int64_t> *counts[] = {&batch, &heads, &kvHeads, &kvLen};
  for (const cl::opt<int64_t> *count : counts)
    if (count->getNumOccurrences() && *count < 1) // nothing to do takes no time, which is never long enough
      return makeError("--%s: expected at least 1, got %lld", count->ArgStr.str().c_str(),
                       static_cast<long long>(*count));
  for (int64_t headDim : headDims)
    if (headDim < 1 || headDim > 512)
      return makeError("--d: expected 1 to 512, got %lld", static_cast<long long>(headDim));
  if (!inputFile.empty() &&
      (!lengths.empty() || !headDims.empty() || !dtypes.empty() || !mods.empty() || causal))
    return makeError("--n, --d, --dtype, --mods and --causal are for generated cases, not for a file");
  return llvm::Error::success();
}

int main(int argc, char **argv) {
  // Google Benchmark takes its options out of argv, --help among them, whose text would be its own.
  if (llvm::none_of(llvm::ArrayRef(argv, argc),
                    [](StringRef word) { return word == "--help" || word == "-help"; }))
    benchmark::Initialize(&argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, overview);
  ProgramOptions options;
  if (llvm::Error error = configure(options)) {
    llvm::errs() << "attn-bench: " << llvm::toString(std::move(error)) << '\n';
    return 1;
  }
  DialectRegistry registry;
  registerToolDialects(registry);
  MLIRContext context(registry);
  if (tunes) {
    llvm::Error error = tune(&context, makeCases(/*onGpu=*/true), options, repeats, tablePath);
    if (!error)
      return 0;
    llvm::errs() << "attn-bench: " << llvm::toString(std::move(error)) << '\n';
    return 1;
  }
  if (inputFile.empty()) {
    registerCases(&context, options);
  } else {
    InputRequest request;
    if (kvLen.getNumOccurrences())
      request.sizes[static_cast<unsigned>(SharedSize::kvLen)] = kvLen;
    registerCase(
        inputFile + (backward ? "/backward" : "/forward"),
        [&, request] { return BenchRun::create(&context, inputFile, entryName, backward, request, options); },
        nullptr, options);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return anyFailed ? 1 : 0;
}
