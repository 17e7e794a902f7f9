//===- MaskPicture.cpp - draws the blocks of a mask ---------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/MaskPicture.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace attn;

int64_t attn::chooseMaskBlock(int64_t qLen, int64_t kvLen, int64_t maxBlocks) {
  int64_t block = 1;
  while (std::max(qLen, kvLen) > block * maxBlocks)
    block *= 2;
  return block;
}

namespace {
/// How a block is drawn.
enum Look { drawEmpty, drawPartial, drawFull, drawWasted, drawWrong, numLooks };
} // namespace

static Look getLook(const MaskBlocks &blocks, int64_t row, int64_t column) {
  MaskBlocks::Kind exact = blocks.getKind(row, column);
  if (!blocks.planned.empty()) {
    MaskBlocks::Kind planned = blocks.planned[row * blocks.columns + column];
    if ((exact != MaskBlocks::empty && planned == MaskBlocks::empty) ||
        (exact != MaskBlocks::full && planned == MaskBlocks::full))
      return drawWrong;
    if (exact == MaskBlocks::empty && planned != MaskBlocks::empty)
      return drawWasted;
  }
  return exact == MaskBlocks::empty ? drawEmpty : exact == MaskBlocks::full ? drawFull : drawPartial;
}

static std::array<int64_t, numLooks> countLooks(const MaskBlocks &blocks) {
  std::array<int64_t, numLooks> counts{};
  for (int64_t row = 0; row < blocks.rows; ++row)
    for (int64_t column = 0; column < blocks.columns; ++column)
      ++counts[getLook(blocks, row, column)];
  return counts;
}

static StringRef getText(Look look) {
  constexpr StringLiteral texts[] = {"empty: skipped", "partial: the mask is evaluated",
                                     "full: every pair is kept", "empty, but visited by the plan",
                                     "WRONG: the plan skips or does not mask it"};
  return texts[look];
}

/// One line that says whether the plan agrees with the mask as evaluated.
static std::string getVerdict(const MaskBlocks &blocks) {
  if (blocks.planned.empty())
    return "";
  std::string text;
  llvm::raw_string_ostream os(text);
  if (int64_t wrong = blocks.countUnsound()) {
    os << "plan: WRONG in " << wrong << " blocks";
    return text;
  }
  int64_t visited = 0, wasted = blocks.countVisitedEmpty(), masked = blocks.countMaskedFull();
  for (MaskBlocks::Kind kind : blocks.planned)
    visited += kind != MaskBlocks::empty;
  os << "plan: visits " << visited << " blocks, " << (wasted ? std::to_string(wasted) : "none")
     << " of them empty; ";
  os << "evaluates the mask in " << (masked ? std::to_string(masked) : "no") << " full "
     << (masked == 1 ? "block" : "blocks");
  return text;
}

static std::string getSummary(const MaskBlocks &blocks) {
  int64_t kept = 0;
  for (int64_t pairs : blocks.kept)
    kept += pairs;
  double all = static_cast<double>(blocks.qLen) * static_cast<double>(blocks.kvLen);
  std::string text;
  llvm::raw_string_ostream os(text);
  os << blocks.qLen << " queries, " << blocks.kvLen << " keys, blocks of " << blocks.blockM << " x "
     << blocks.blockN << "; kept pairs: " << kept
     << llvm::format(" (%.1f%%)", all > 0 ? 100.0 * static_cast<double>(kept) / all : 0.0);
  return text;
}

//===----------------------------------------------------------------------===//
// Terminal
//===----------------------------------------------------------------------===//

void attn::printMaskText(llvm::raw_ostream &os, const MaskBlocks &blocks, StringRef title) {
  constexpr StringLiteral glyphs[] = {"·", "▒", "█", "o", "!"};
  os << title << '\n' << getSummary(blocks) << '\n';
  auto label = [&](int64_t index) { os << llvm::format("%8lld ", static_cast<long long>(index)); };

  // A key index above every 16th column, so that positions can be read off.
  os.indent(9);
  int64_t printed = 0;
  for (int64_t column = 0; column < blocks.columns; column += 16) {
    std::string text = std::to_string(column * blocks.blockN);
    os.indent(column - printed) << text;
    printed = column + static_cast<int64_t>(text.size());
  }
  os << "  key\n";
  for (int64_t row = 0; row < blocks.rows; ++row) {
    if (row % 8 == 0)
      label(row * blocks.blockM);
    else
      os.indent(9);
    for (int64_t column = 0; column < blocks.columns; ++column)
      os << glyphs[getLook(blocks, row, column)];
    os << '\n';
  }
  os << "   query\n";
  std::array<int64_t, numLooks> counts = countLooks(blocks);
  for (Look look : {drawFull, drawPartial, drawEmpty, drawWasted, drawWrong})
    if (counts[look] || look <= drawFull)
      os << "  " << glyphs[look] << "  " << getText(look) << " (" << counts[look] << ")\n";
  if (std::string verdict = getVerdict(blocks); !verdict.empty())
    os << verdict << '\n';
}

//===----------------------------------------------------------------------===//
// SVG
//===----------------------------------------------------------------------===//

static std::string escapeXml(StringRef text) {
  std::string escaped;
  for (char c : text) {
    if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '&')
      escaped += "&amp;";
    else
      escaped += c;
  }
  return escaped;
}

/// 1, 2 or 5 times a power of ten, for at most about eight ticks.
static int64_t chooseTick(int64_t length) {
  for (int64_t power = 1;; power *= 10)
    for (int64_t factor : {1, 2, 5})
      if (length <= 8 * factor * power)
        return factor * power;
}

void attn::printMaskSvg(llvm::raw_ostream &os, const MaskBlocks &blocks, StringRef title) {
  constexpr StringLiteral colours[] = {"#f3f4f6", "#8ab4f8", "#1a4f9c", "#f6c26b", "#d93025"};
  constexpr double left = 72, top = 84, extent = 512;
  // One scale for both axes: a diagonal stays a diagonal.
  double scale = extent / static_cast<double>(std::max<int64_t>({blocks.qLen, blocks.kvLen, 1}));
  double width = static_cast<double>(blocks.kvLen) * scale, height = static_cast<double>(blocks.qLen) * scale;
  std::array<int64_t, numLooks> counts = countLooks(blocks);
  SmallVector<Look> legend;
  for (Look look : {drawFull, drawPartial, drawEmpty, drawWasted, drawWrong})
    if (counts[look] || look <= drawFull)
      legend.push_back(look);
  double legendTop = top + height + 24;
  double totalHeight = legendTop + 22 * static_cast<double>(legend.size()) + 36;

  os << llvm::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" ",
                     left + std::max(width, 480.0) + 24, totalHeight)
     << "font-family=\"sans-serif\" font-size=\"12\" fill=\"#202124\">\n"
     << "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
     << llvm::format("<text x=\"%.0f\" y=\"22\" font-size=\"15\" font-weight=\"bold\">", left)
     << escapeXml(title) << "</text>\n"
     << llvm::format("<text x=\"%.0f\" y=\"40\" fill=\"#5f6368\">", left) << getSummary(blocks)
     << "</text>\n";

  // Runs of one look in a row are one rectangle; crispEdges keeps hairlines from showing between rectangles.
  os << llvm::format("<g transform=\"translate(%.0f %.0f)\" shape-rendering=\"crispEdges\">\n", left, top)
     << llvm::format("<rect width=\"%.2f\" height=\"%.2f\" fill=\"", width, height) << colours[drawEmpty]
     << "\"/>\n";
  for (int64_t row = 0; row < blocks.rows; ++row)
    for (int64_t column = 0; column < blocks.columns;) {
      Look look = getLook(blocks, row, column);
      int64_t end = column + 1;
      while (end < blocks.columns && getLook(blocks, row, end) == look)
        ++end;
      auto x = static_cast<double>(column * blocks.blockN), y = static_cast<double>(row * blocks.blockM);
      auto right = static_cast<double>(std::min(end * blocks.blockN, blocks.kvLen));
      auto bottom = static_cast<double>(std::min((row + 1) * blocks.blockM, blocks.qLen));
      if (look != drawEmpty)
        os << llvm::format("<rect x=\"%.2f\" y=\"%.2f\" ", x * scale, y * scale)
           << llvm::format("width=\"%.2f\" height=\"%.2f\" fill=\"", (right - x) * scale,
                           (bottom - y) * scale)
           << colours[look] << "\"/>\n";
      column = end;
    }
  os << llvm::format("<rect width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"#5f6368\"/>\n", width,
                     height)
     << "</g>\n";

  auto text = [&](double x, double y, StringRef anchor, const llvm::Twine &content, StringRef more = "") {
    os << llvm::format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"", x, y) << anchor << '"' << more << '>'
       << content << "</text>\n";
  };
  int64_t tick = chooseTick(std::max(blocks.qLen, blocks.kvLen));
  // An axis that is too short for a second tick has one at its end.
  auto getTicks = [&](int64_t length) {
    SmallVector<int64_t> ticks;
    for (int64_t index = 0; index <= length; index += tick)
      ticks.push_back(index);
    if (ticks.size() == 1 && length > 0 && static_cast<double>(length) * scale > 12)
      ticks.push_back(length);
    return ticks;
  };
  for (int64_t key : getTicks(blocks.kvLen)) {
    double x = left + static_cast<double>(key) * scale;
    os << llvm::format("<path d=\"M%.1f %.1fv-5\" stroke=\"#5f6368\"/>\n", x, top);
    text(x, top - 8, "middle", llvm::Twine(key));
  }
  for (int64_t query : getTicks(blocks.qLen)) {
    double y = top + static_cast<double>(query) * scale;
    os << llvm::format("<path d=\"M%.1f %.1fh-5\" stroke=\"#5f6368\"/>\n", left, y);
    text(left - 8, y + 4, "end", llvm::Twine(query));
  }
  // At the origin, where they have room however short an axis is.
  text(left, top - 26, "start", "key index");
  std::string rotation;
  llvm::raw_string_ostream(rotation) << llvm::format(" transform=\"rotate(-90 18 %.1f)\"", top);
  text(18, top, "end", "query index", rotation);

  double y = legendTop;
  for (Look look : legend) {
    os << llvm::format("<rect x=\"%.0f\" y=\"%.1f\" width=\"14\" height=\"14\" stroke=\"#5f6368\" fill=\"",
                       left, y)
       << colours[look] << "\"/>\n";
    text(left + 22, y + 11, "start", getText(look) + " (" + llvm::Twine(counts[look]) + ")");
    y += 22;
  }
  text(left, y + 11, "start", getVerdict(blocks));
  os << "</svg>\n";
}
