//===- CudaAsyncOps.cpp - roles, pipelines and asynchronous products as calls -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CudaTypes.h"
#include "codegen/FunctionPrinter.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;
using namespace attn::cuda;

void FunctionPrinter::printRoles(tile::WarpSpecializeOp op) {
  os << "publish_barriers();\n"
     << "const int warpgroup = warpgroup_index();\n"
     << "if (warpgroup < kConsumers) ";
  {
    auto consumers = os.scope("{\n", "}");
    os << "increase_registers<" << op.getConsumerRegisters() << ">();\n";
    printStatements(op.getConsumer().front());
  }
  auto producer = os.scope(" else {\n", "}\n");
  os << "decrease_registers<" << op.getProducerRegisters() << ">();\n"
     << "if (threadIdx.x == 128 * kConsumers) ";
  {
    auto thread = os.scope("{\n", "}");
    printStatements(op.getProducer().front());
  }
  if (!op.getStorer().empty()) {
    os << " else if (warp_index() == 4 * kConsumers + 1) ";
    auto warp = os.scope("{\n", "}");
    printStatements(op.getStorer().front());
  }
  os << "\n";
}

bool FunctionPrinter::printAsyncOp(Operation *op) {
  auto call = [&](StringRef function) {
    os << function << "();\n";
    return true;
  };
  auto turn = [&](StringRef function) {
    os << function << "<kConsumers>(warpgroup);\n";
    return true;
  };
  auto slot = [&](auto slotOp, StringRef member) {
    os << "const auto " << names.getName(slotOp.getTile()) << " = " << getText(slotOp.getPipeline()) << '.'
       << member << "();\n";
    return true;
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](tile::WarpSpecializeOp roles) {
        printRoles(roles);
        return true;
      })
      .Case([&](tile::OpenTurnsOp) { return turn("open_turns"); })
      .Case([&](tile::TakeTurnOp) { return turn("take_turn"); })
      .Case([&](tile::PassTurnOp) { return turn("pass_turn"); })
      .Case([&](tile::PipelineAllocOp alloc) {
        os << getType(alloc.getType()) << ' ' << names.getName(alloc.getPipeline()) << "(shared + "
           << *alloc.getOffset() << ", shared + " << *alloc.getBarrierOffset() << ");\n";
        return true;
      })
      .Case([&](tile::WorkQueueAllocOp alloc) {
        os << getType(alloc.getType()) << ' ' << names.getName(alloc.getQueue()) << "(shared + "
           << *alloc.getOffset() << ");\n";
        return true;
      })
      .Case([&](tile::WorkDrawOp draw) {
        printVariable(draw.getNumber(), {getText(draw.getQueue()) + ".draw(" + getText(draw.getCounter()) +
                                         ".data, " + getText(draw.getCount()) + ")"});
        return true;
      })
      .Case([&](tile::WorkTakeOp take) {
        printVariable(take.getNumber(), {getText(take.getQueue()) + ".take()"});
        return true;
      })
      .Case([&](tile::PipelineAcquireOp acquire) { return slot(acquire, "acquire"); })
      .Case([&](tile::PipelineWaitOp wait) {
        return slot(wait, tile::WarpSpecializeOp::isInStorer(wait) ? "wait_written" : "wait");
      })
      .Case([&](tile::PipelineCommitOp commit) { return call(getText(commit.getPipeline()) + ".commit"); })
      .Case([&](tile::PipelineReleaseOp release) {
        bool isStored = tile::WarpSpecializeOp::isInStorer(release);
        return call(getText(release.getPipeline()) + (isStored ? ".release_stored" : ".release"));
      })
      .Case([&](tile::LoadPanelsOp load) {
        os << "load_panels(" << getText(load.getFragment()) << ", " << getText(load.getTile()) << ");\n";
        return true;
      })
      .Case([&](tile::StorePanelsOp store) {
        os << "store_panels(" << getText(store.getPipeline()) << ", " << getText(store.getFragment())
           << ");\n";
        return true;
      })
      .Case([&](tile::StoreBulkOp store) {
        os << "store_bulk(" << getText(store.getMap()) << ", " << getText(store.getTile()) << ", "
           << getArguments(store.getIndices()) << ");\n";
        return true;
      })
      .Case([&](tile::CopyBulkOp copy) {
        os << "copy_bulk(" << getText(copy.getTile()) << ", " << getText(copy.getMap()) << ", "
           << getText(copy.getPipeline()) << ", " << getArguments(copy.getIndices())
           << (copy.getColumn() ? ", " + getText(copy.getColumn()) : "") << ");\n";
        return true;
      })
      .Case([&](tile::MmaCommitOp) { return call("mma_commit"); })
      .Case([&](tile::MmaWaitOp wait) {
        os << "mma_wait<" << wait.getPending() << ">(" << getArguments(wait.getFragments()) << ");\n";
        return true;
      })
      .Default(false);
}
