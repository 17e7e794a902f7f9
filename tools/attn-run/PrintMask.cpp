//===- PrintMask.cpp - shows which blocks a mask keeps ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/attn-run/PrintMask.h"
#include "tools/common/MaskPicture.h"
#include "tools/common/Plan.h"

using namespace mlir;
using namespace attn;

static llvm::Error checkRange(StringRef option, int64_t value, std::optional<int64_t> count) {
  if (value < 0 || (count && value >= *count))
    return makeError("%s: expected a number from 0 to %lld, got %lld", option.str().c_str(),
                     static_cast<long long>(count ? *count - 1 : INT64_MAX), static_cast<long long>(value));
  return llvm::Error::success();
}

llvm::Expected<bool> attn::printMask(llvm::raw_ostream &os, const EntryPoint &entry,
                                     const SizeResolver &sizes, ArrayRef<HostTensor> inputs,
                                     const MaskRequest &request, const ProgramOptions &options) {
  AttentionOpInterface op = entry.getAttentionOps().front();
  if (llvm::Error error = checkRange("--mask-batch", request.batch, sizes.getSize(op.getQuery(), 0)))
    return std::move(error);
  if (llvm::Error error = checkRange("--mask-head", request.head, sizes.getSize(op.getQuery(), 1)))
    return std::move(error);
  std::optional<int64_t> qLen = sizes.getSize(op.getQuery(), 2), kvLen = sizes.getSize(op.getKey(), 2);
  if (!qLen || !kvLen)
    return makeError("--print-mask: the lengths of the attention do not follow from the inputs");
  constexpr double maxPairs = 0x1p42; // minutes
  if (double pairs = static_cast<double>(*qLen) * static_cast<double>(*kvLen);
      pairs > maxPairs && !op.getMask().empty())
    return makeError(
        "--print-mask: expected at most %.2g pairs, since the mask is evaluated at each, got %.2g", maxPairs,
        pairs);
  int64_t block = request.block ? request.block : chooseMaskBlock(*qLen, *kvLen);
  constexpr double maxBlocks = 1 << 24;
  if (block < 1 || (static_cast<double>(*qLen) / static_cast<double>(block)) *
                           (static_cast<double>(*kvLen) / static_cast<double>(block)) >
                       maxBlocks)
    return makeError("--mask-block: expected a size of at least 1 that gives at most %.0f blocks, got %lld",
                     maxBlocks, static_cast<long long>(block));

  llvm::Expected<MaskBlocks> blocks =
      evaluateMask(entry, op, sizes, inputs, request.batch, request.head, block, block, options);
  if (!blocks)
    return blocks.takeError();
  llvm::Expected<PlannedEntry> planned = PlannedEntry::create(entry, sizes, options);
  if (!planned)
    return planned.takeError();
  SmallVector<OnlineAttentionOp> ops = planned->getOps();
  if (!ops.empty())
    if (llvm::Error error = planned->setPlanned(ops.front(), *blocks, request.batch, request.head, inputs))
      return std::move(error);

  std::string title = "mask of @" + entry.getFunction().getName().str() + ", batch entry " +
                      std::to_string(request.batch) + ", head " + std::to_string(request.head);
  if (request.file.empty()) {
    printMaskText(os, *blocks, title);
    return blocks->countUnsound() == 0;
  }
  std::error_code code;
  llvm::raw_fd_ostream file(request.file, code);
  if (!code)
    printMaskSvg(file, *blocks, title);
  file.close();
  if (code || file.has_error()) {
    std::string reason = (code ? code : file.error()).message();
    file.clear_error();
    return makeError("--print-mask: %s: %s", request.file.c_str(), reason.c_str());
  }
  os << "wrote " << request.file << '\n';
  return blocks->countUnsound() == 0;
}
