//===- ChooseScheduleFixture.h - choosing schedules by rule, in tests -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_CHOOSESCHEDULEFIXTURE_H
#define ATTN_TEST_UNIT_CHOOSESCHEDULEFIXTURE_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "passes/ChooseSchedule.h"
#include "passes/Targets.h"
#include "gtest/gtest.h"

namespace attn {

inline ShapeClass makeShape(KernelKind kind, int64_t headDim = 64, int64_t valueDim = 64,
                            unsigned computeBits = 32) {
  return {kind, headDim, valueDim, computeBits, /*elementBits=*/computeBits, {}, {}, {}};
}

class ChooseScheduleTest : public ::testing::Test {
protected:
  ChooseScheduleTest() { context.loadDialect<AttnDialect>(); }

  mlir::InFlightDiagnostic emitError() { return mlir::emitError(mlir::UnknownLoc::get(&context)); }

  /// By rule; MeasuredSchedulesTest has what was measured.
  ScheduleChoice choose(const ShapeClass &shape, TargetAttr target, ScheduleOverrides overrides = {}) {
    overrides.measured = {};
    mlir::FailureOr<ScheduleChoice> choice =
        chooseSchedule([&] { return emitError(); }, shape, target, overrides);
    if (succeeded(choice))
      return *choice;
    ADD_FAILURE() << "no schedule";
    return ScheduleChoice();
  }

  std::string chooseError(const ShapeClass &shape, TargetAttr target,
                          const ScheduleOverrides &overrides = {}) {
    std::string message;
    mlir::ScopedDiagnosticHandler handler(&context,
                                          [&](mlir::Diagnostic &diagnostic) { message += diagnostic.str(); });
    EXPECT_TRUE(failed(chooseSchedule([&] { return emitError(); }, shape, target, overrides)));
    return message;
  }

  TargetAttr cpu(Arch arch, int64_t l2Bytes = 1048576, int64_t cores = 1) {
    TargetAttr named = getNamedTarget(&context, arch);
    return TargetAttr::get(&context, arch, named.getVectorBits(), named.getVectorRegisters(), 32768, l2Bytes,
                           cores, 0);
  }

  mlir::MLIRContext context;
};

} // namespace attn

#endif // ATTN_TEST_UNIT_CHOOSESCHEDULEFIXTURE_H
