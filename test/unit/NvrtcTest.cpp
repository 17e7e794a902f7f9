//===- NvrtcTest.cpp - compiling CUDA, with and without NVRTC ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/BuildId.h"
#include "runtime/Environment.h"
#include "runtime/Hash.h"
#include "runtime/KernelCompiler.h"
#include "test/unit/TemporaryDirectory.h"
#include "gtest/gtest.h"
#include <fstream>
#include <sstream>
#include <thread>

using namespace attn;
using attn::test::TemporaryDirectory;
namespace fs = std::filesystem;

namespace {
//===----------------------------------------------------------------------===//
// Without NVRTC
//===----------------------------------------------------------------------===//

TEST(CompileLog, ReadsWhatPtxasSays) {
  CompileReport report = parseCompileLog(
      "ptxas warning : Registers are spilled to local memory in function 'spills', 8 bytes spill stores\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'spills' for 'sm_90a'\n"
      "ptxas info    : Function properties for spills\n"
      "    40 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 168 registers, used 1 barriers, 40 bytes cumulative stack size, 1024 bytes smem\n"
      "ptxas info    : Compiling entry function 'clean' for 'sm_90a'\n"
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in "
      "'clean'\n"
      "ptxas info    : Function properties for helper\n"
      "    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Function properties for clean\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 32 registers, used 0 barriers\n");
  ASSERT_EQ(report.functions.size(), 3u);
  EXPECT_EQ(report.functions[0].name, "spills");
  EXPECT_EQ(report.functions[0].registers, 168);
  EXPECT_EQ(report.functions[0].stackBytes, 40);
  EXPECT_EQ(report.functions[0].spillStoreBytes, 8);
  EXPECT_EQ(report.functions[0].spillLoadBytes, 12);
  EXPECT_EQ(report.functions[0].staticSharedBytes, 1024);
  EXPECT_EQ(report.functions[1].name, "clean");
  EXPECT_EQ(report.functions[1].registers, 32);
  EXPECT_EQ(report.functions[1].stackBytes, 0);
  EXPECT_EQ(report.functions[2].name, "helper");
  EXPECT_EQ(report.functions[2].stackBytes, 16);
  ASSERT_EQ(report.warnings.size(), 2u);
  EXPECT_NE(report.warnings[1].find("C7510"), std::string::npos);
  EXPECT_EQ(report.findProblems().size(), 4u); // of two functions, and two lines
  EXPECT_EQ(report.findProblems()[0],
            "spills: 8 bytes spill stores, 12 bytes spill loads, 40 bytes stack frame a thread");
}

TEST(Nvrtc, PrefersTheHighestVersionInTheFirstFolder) {
  TemporaryDirectory first, second;
  for (const char *name : {"/libnvrtc.so", "/libnvrtc.so.9", "/libnvrtc.so.13", "/libnvrtc-builtins.so.14"})
    std::ofstream(first.getPath() + name) << "x";
  std::ofstream(second.getPath() + "/libnvrtc.so.14") << "x";
  StatusOr<NvrtcLibrary> library = Nvrtc::find("", {"/nonexistent", first.getPath(), second.getPath()});
  ASSERT_TRUE(library.ok());
  if (library->path.find(first.getPath()) == std::string::npos)
    GTEST_SKIP() << "this process has already loaded NVRTC";
  EXPECT_EQ(library->path, first.getPath() + "/libnvrtc.so.13");
  std::string identity = library->identity;
  std::ofstream(library->path) << "xy";
  EXPECT_NE(Nvrtc::find("", {first.getPath()})->identity, identity);
  StatusOr<std::shared_ptr<Nvrtc>> opened = Nvrtc::open(*library);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.getMessage().find("NVRTC does not load: " + library->path), 0u) << opened.getMessage();
}

TEST(Nvrtc, MissingLibraryIsNamed) {
  EXPECT_EQ(Nvrtc::find("/nonexistent/libnvrtc.so.13", {}).getMessage(),
            "NVRTC: there is no file '/nonexistent/libnvrtc.so.13'");
  StatusOr<NvrtcLibrary> library = Nvrtc::find("", {"/nonexistent", "/nowhere"});
  if (library.ok())
    GTEST_SKIP() << "the dynamic linker finds " << library->path;
  EXPECT_EQ(
      library.getMessage(),
      "NVRTC is missing: found no libnvrtc.so.13 or other version where the dynamic linker looks, nor in "
      "/nonexistent, nor in /nowhere; it comes with the CUDA toolkit, or by 'pip install nvidia-cuda-nvrtc'");
}

TEST(BuildId, IsThatOfTheProgram) {
  // The linker's: hexadecimal digits, where the fallback has others too.
  EXPECT_GE(getBuildId().size(), 16u);
  EXPECT_EQ(getBuildId().find_first_not_of("0123456789abcdef"), std::string::npos) << getBuildId();
}

/// Puts a variable back as it was.
class VariableScope {
public:
  explicit VariableScope(const char *name) : name(name) {
    if (const char *value = getenv(name))
      outer = value;
  }
  VariableScope(const VariableScope &) = delete;
  VariableScope &operator=(const VariableScope &) = delete;
  ~VariableScope() { outer ? setenv(name, outer->c_str(), 1) : unsetenv(name); }

private:
  const char *name;
  std::optional<std::string> outer;
};

TEST(Environment, ReadsItsVariables) {
  VariableScope scopes[] = {VariableScope("ATTN_CACHE_DIR"), VariableScope("ATTN_DISABLE_JIT"),
                            VariableScope("ATTN_DUMP_DIR"),  VariableScope("ATTN_OVERRIDE_DIR"),
                            VariableScope("XDG_CACHE_HOME"), VariableScope("HOME"),
                            VariableScope("VIRTUAL_ENV"),    VariableScope("PATH")};
  TemporaryDirectory directory;
  for (const char *name : {"ATTN_CACHE_DIR", "ATTN_DISABLE_JIT", "ATTN_DUMP_DIR", "ATTN_OVERRIDE_DIR"})
    unsetenv(name);
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(readEnvironment()->cacheDirectory, "/xdg/attn");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(readEnvironment()->cacheDirectory, "/home/someone/.cache/attn");
  setenv("ATTN_CACHE_DIR", "/cache", 1);
  EXPECT_EQ(readEnvironment()->cacheDirectory, "/cache");
  EXPECT_FALSE(readEnvironment()->disableJit);
  setenv("ATTN_DISABLE_JIT", "1", 1);
  EXPECT_TRUE(readEnvironment()->disableJit);
  setenv("ATTN_DISABLE_JIT", "yes", 1);
  EXPECT_EQ(readEnvironment().getMessage(), "ATTN_DISABLE_JIT is 'yes', expected 0 or 1");
  unsetenv("ATTN_DISABLE_JIT");
  setenv("ATTN_OVERRIDE_DIR", "/nonexistent", 1);
  EXPECT_EQ(readEnvironment().getMessage(), "ATTN_OVERRIDE_DIR names '/nonexistent', which is no directory");
  unsetenv("ATTN_OVERRIDE_DIR");
  // The package from PyPI, of both layouts, beside the python3 on PATH and in a virtual environment.
  std::string cu13 = directory.getPath() + "/a/lib/python3.12/site-packages/nvidia/cu13/lib",
              older = directory.getPath() + "/b/lib/python3.9/site-packages/nvidia/cuda_nvrtc/lib";
  fs::create_directories(cu13);
  fs::create_directories(older);
  fs::create_directories(directory.getPath() + "/a/bin");
  std::ofstream(directory.getPath() + "/a/bin/python3") << "x";
  std::string path = getenv("PATH");
  setenv("PATH", (path + ":" + directory.getPath() + "/a/bin").c_str(), 1);
  setenv("VIRTUAL_ENV", (directory.getPath() + "/b").c_str(), 1);
  std::vector<std::string> directories = readEnvironment()->nvrtcDirectories;
  auto at = [&](const std::string &directory) {
    return std::find(directories.begin(), directories.end(), directory) - directories.begin();
  };
  EXPECT_LT(at(older), at(cu13));
  EXPECT_LT(size_t(at(cu13)), directories.size());
}

TEST(KernelCompiler, PlansComeFromTheCache) {
  TemporaryDirectory directory;
  KernelCompilerOptions options;
  KernelCacheOptions cacheOptions;
  cacheOptions.directory = directory.getPath();
  int lowered = 0;
  auto lower = [&]() -> StatusOr<LaunchPlan> {
    ++lowered;
    LaunchPlan plan;
    plan.name = "f";
    plan.variants = {{"only", Expr(1), {}, {}}};
    return plan;
  };
  for (int process = 0; process < 2; ++process) {
    options.cache = std::make_shared<KernelCache>(cacheOptions);
    KernelCompiler compiler(options);
    for (int call = 0; call < 2; ++call) {
      StatusOr<LaunchPlan> plan = compiler.getPlan({"module", "f", "target", {}, ""}, lower);
      ASSERT_TRUE(plan.ok()) << plan.getMessage();
      EXPECT_EQ(plan->variants[0].name, "only");
    }
  }
  EXPECT_EQ(lowered, 1);
  // Another build lowers anew.
  options.buildId = "other";
  (void)KernelCompiler(options).getPlan({"module", "f", "target", {}, ""}, lower);
  EXPECT_EQ(lowered, 2);
}

//===----------------------------------------------------------------------===//
// With NVRTC
//===----------------------------------------------------------------------===//

struct NvrtcCompile : testing::Test {
  void SetUp() override {
    StatusOr<Environment> environment = readEnvironment();
    ASSERT_TRUE(environment.ok());
    StatusOr<NvrtcLibrary> found = Nvrtc::find("", environment->nvrtcDirectories);
    if (!found.ok())
      GTEST_SKIP() << found.getMessage();
    library = *found;
    options.headers = {
        {"attn/test.cuh", "template <typename T> __device__ T twice(T x) { return x + x; }\n"}};
    options.nvrtcPath = library.path;
    options.warn = [&](const std::string &message) { warnings.push_back(message); };
    useCache();
  }

  /// As another process would.
  void useCache() {
    KernelCacheOptions cacheOptions;
    cacheOptions.directory = directory.getPath() + "/cache";
    options.cache = std::make_shared<KernelCache>(cacheOptions);
  }

  StatusOr<CompiledModule> compile(const std::string &source, const std::string &arch = "sm_90a") {
    return KernelCompiler(options).compile("plan", {"copy", source}, arch);
  }

  const std::string copySource = "#include \"attn/test.cuh\"\n"
                                 "extern \"C\" __global__ void copy(float *out, const float *in) {\n"
                                 "  out[threadIdx.x] = twice(in[threadIdx.x]);\n"
                                 "}\n";
  TemporaryDirectory directory;
  NvrtcLibrary library;
  KernelCompilerOptions options;
  std::vector<std::string> warnings;
};

TEST_F(NvrtcCompile, ForEveryArchitecture) {
  for (const char *arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    StatusOr<CompiledModule> module = compile(copySource, arch);
    ASSERT_TRUE(module.ok()) << module.getMessage();
    EXPECT_EQ(module->getCubin().substr(1, 3), "ELF");
    CompileReport report = module->getReport();
    ASSERT_EQ(report.functions.size(), 1u) << module->getLog();
    EXPECT_EQ(report.functions[0].name, "copy");
    EXPECT_GT(report.functions[0].registers, 0);
    EXPECT_TRUE(report.findProblems().empty()) << module->getLog();
  }
}

TEST_F(NvrtcCompile, ReportsSpillsAndLocalMemory) {
  StatusOr<CompiledModule> module = compile(R"(
extern "C" __global__ void indexed(float *x, int n) {
  float a[64];
  for (int i = 0; i < 64; ++i) a[i] = x[i * n];
  for (int j = 0; j < n; ++j) a[(j * 7) & 63] *= a[j & 63];
  x[0] = a[n & 63];
}
extern "C" __global__ void __launch_bounds__(1024) spilling(float *x, int n) {
  float a[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) a[i] = x[i * n];
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int i = 0; i < 128; ++i) asm volatile("add.f32 %0, %0, %1;" : "+f"(a[i]) : "f"(a[(i + 1) % 128]));
  }
#pragma unroll
  for (int i = 0; i < 128; ++i) x[i] = a[i];
}
)");
  ASSERT_TRUE(module.ok()) << module.getMessage();
  for (const FunctionUsage &function : module->getReport().functions) {
    EXPECT_GT(function.stackBytes, 0) << module->getLog();
    if (function.name == "spilling")
      EXPECT_GT(function.spillStoreBytes, 0) << module->getLog();
  }
  EXPECT_EQ(module->getReport().functions.size(), 2u);
  EXPECT_GE(module->getReport().warnings.size(), 2u) << module->getLog();
}

TEST_F(NvrtcCompile, ErrorsAreOneLine) {
  StatusOr<CompiledModule> module = compile("extern \"C\" __global__ void f() { undeclared(); }");
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.getMessage().find("identifier \"undeclared\" is undefined"), std::string::npos)
      << module.getMessage();
  EXPECT_EQ(module.getMessage().find('\n'), std::string::npos);
  module = compile("#include \"attn/absent.cuh\"\n");
  EXPECT_NE(module.getMessage().find("absent.cuh"), std::string::npos) << module.getMessage();
  module = compile(copySource, "sm_12");
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.getMessage().find("it is for sm_"), std::string::npos) << module.getMessage();
  options.nvrtcPath = "/nonexistent/libnvrtc.so.13";
  EXPECT_EQ(compile(copySource + " ").getMessage(), "NVRTC: there is no file '/nonexistent/libnvrtc.so.13'");
}

TEST_F(NvrtcCompile, GivesPtx) {
  StatusOr<std::shared_ptr<Nvrtc>> nvrtc = Nvrtc::open(library);
  ASSERT_TRUE(nvrtc.ok());
  NvrtcRequest request{"copy.cu", copySource, options.headers, "sm_90a", {}, /*wantPtx=*/true};
  StatusOr<NvrtcOutput> output = (*nvrtc)->compile(request);
  ASSERT_TRUE(output.ok());
  EXPECT_NE(output->ptx.find(".target sm_90a"), std::string::npos);
  request.wantPtx = false;
  EXPECT_EQ((*nvrtc)->compile(request)->ptx, "");
}

TEST_F(NvrtcCompile, InThreads) {
  KernelCompiler compiler(options);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      ModuleSpec module{"m" + std::to_string(i % 4), copySource + "// " + std::to_string(i % 4)};
      StatusOr<CompiledModule> compiled = compiler.compile("plan", module, "sm_90a");
      EXPECT_TRUE(compiled.ok());
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(compiler.getCache().listKeys(KernelCache::Kind::Kernel).size(), 4u);
}

TEST_F(NvrtcCompile, AWarmCacheNeedsNoNvrtc) {
  // A copy of the library's file that is damaged after its version was noted: to open it would fail.
  std::string path = directory.getPath() + "/libnvrtc.so.13";
  fs::create_symlink(library.path, path);
  options.nvrtcPath = path;
  StatusOr<CompiledModule> built = compile(copySource);
  ASSERT_TRUE(built.ok()) << built.getMessage();
  useCache();
  options.disableJit = true;
  StatusOr<CompiledModule> found = compile(copySource);
  ASSERT_TRUE(found.ok()) << found.getMessage();
  EXPECT_EQ(found->getCubin(), built->getCubin());
  EXPECT_EQ(compile(copySource + "\n").getMessage(),
            "kernel 'plan.copy." + hashText(copySource + "\n").substr(0, 8) +
                "' is not in the cache for sm_90a, and compiling is off (ATTN_DISABLE_JIT)");
  fs::remove(path);
  found = compile(copySource);
  ASSERT_TRUE(found.ok()) << "without a library: " << found.getMessage();
  EXPECT_EQ(found->getCubin(), built->getCubin());
}

TEST_F(NvrtcCompile, DumpsAndOverrides) {
  options.dumpDirectory = directory.getPath() + "/dump";
  ASSERT_TRUE(compile(copySource).ok());
  std::string base = options.dumpDirectory + "/plan.copy." + hashText(copySource).substr(0, 8);
  for (const char *ending : {".cu", ".cubin", ".json", ".log"})
    EXPECT_TRUE(fs::exists(base + ending)) << ending;

  // Edit the CUDA and run again.
  options.overrideDirectory = options.dumpDirectory;
  options.dumpDirectory.clear();
  std::ofstream(base + ".cu") << "extern \"C\" __global__ void copy(float *out) { *out = 1; }";
  StatusOr<CompiledModule> module = compile(copySource);
  ASSERT_TRUE(module.ok());
  EXPECT_NE(module->getSource(), copySource);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0], "using '" + base + ".cu' instead of the emitted source");
  // The compiler emits another source now: the file is of no use, and that is said.
  module = compile(copySource + "\n");
  ASSERT_TRUE(module.ok());
  EXPECT_EQ(module->getSource(), copySource + "\n");
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings[1].find("not using '" + base + ".cu': the source emitted now is plan.copy."), 0u);
  // A source with an error leaves what one needs to find it.
  options.overrideDirectory.clear();
  options.dumpDirectory = directory.getPath() + "/errors";
  EXPECT_FALSE(compile("oops").ok());
  base = options.dumpDirectory + "/plan.copy." + hashText("oops").substr(0, 8);
  EXPECT_TRUE(fs::exists(base + ".cu"));
  EXPECT_GT(fs::file_size(base + ".log"), 0u);
}
} // namespace
