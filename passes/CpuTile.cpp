//===- CpuTile.cpp - loops and matrix products over tiles for the CPU --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CpuTile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/RegionUtils.h"

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Constants and arithmetic
//===----------------------------------------------------------------------===//

Value TileBuilder::index(int64_t value) { return arith::ConstantIndexOp::create(b, value); }

Value TileBuilder::scalar(double value) {
  return arith::ConstantOp::create(b, cast<TypedAttr>(b.getFloatAttr(compute, value)));
}

Value TileBuilder::splat(double value) {
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(vectorType(), Attribute(b.getFloatAttr(compute, value))));
}

Value TileBuilder::laneIndices(Value start, Value last) {
  auto type = VectorType::get({vectorLength()}, b.getI32Type());
  Value step = vector::StepOp::create(b, VectorType::get({vectorLength()}, b.getIndexType()));
  Value lanes = arith::IndexCastOp::create(b, type, step);
  auto narrow = [&](Value value) -> Value {
    return vector::BroadcastOp::create(b, type, arith::IndexCastOp::create(b, b.getI32Type(), value));
  };
  return arith::MinSIOp::create(b, arith::AddIOp::create(b, narrow(start), lanes), narrow(last));
}

Value TileBuilder::isMinusInfinity(Value value) {
  Value infinity = isa<VectorType>(value.getType()) ? splat(-INFINITY) : scalar(-INFINITY);
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, value, infinity);
}

Value TileBuilder::select(Value condition, Value onTrue, Value onFalse) {
  return arith::SelectOp::create(b, condition, onTrue, onFalse);
}

Value TileBuilder::ceilDiv(Value value, int64_t divisor) {
  return arith::CeilDivSIOp::create(b, value, index(divisor));
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

void TileBuilder::loop(Value begin, Value end, int64_t step, function_ref<void(Value)> body) {
  loop(begin, end, step, ValueRange(), [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>();
  });
}

SmallVector<Value> TileBuilder::loop(Value begin, Value end, int64_t step, ValueRange initial,
                                     function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, begin, end, index(step), initial);
  OpBuilder::InsertionGuard guard(b);
  // Without initial values the builder has made the terminator already.
  if (initial.empty())
    b.setInsertionPoint(loop.getBody()->getTerminator());
  else
    b.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> results = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!initial.empty())
    scf::YieldOp::create(b, results);
  return SmallVector<Value>(loop.getResults());
}

Value TileBuilder::findAny(Value begin, Value end, int64_t step, function_ref<Value(Value)> body) {
  auto before = [&](OpBuilder &, Location, ValueRange arguments) {
    Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, arguments[0], end);
    Value isOpen = arith::XOrIOp::create(b, arguments[1], arith::ConstantIntOp::create(b, 1, 1));
    scf::ConditionOp::create(b, arith::AndIOp::create(b, isInside, isOpen), arguments);
  };
  auto after = [&](OpBuilder &, Location, ValueRange arguments) {
    Value found = body(arguments[0]);
    scf::YieldOp::create(b, ValueRange{arith::AddIOp::create(b, arguments[0], index(step)), found});
  };
  Value initial[] = {begin, arith::ConstantIntOp::create(b, 0, 1)};
  OpBuilder::InsertionGuard guard(b);
  return scf::WhileOp::create(b, TypeRange(ValueRange(initial)), initial, before, after).getResult(1);
}

void TileBuilder::ifThen(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

void TileBuilder::ifElse(Value condition, function_ref<void()> onTrue, function_ref<void()> onFalse) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  onTrue();
  b.setInsertionPointToStart(branch.elseBlock());
  onFalse();
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

Value TileBuilder::allocate(StringRef name, ArrayRef<int64_t> shape) {
  Location loc = NameLoc::get(b.getStringAttr(name), b.getLoc());
  OpBuilder &builder = b;
  return memref::AllocaOp::create(builder, loc, MemRefType::get(shape, compute), b.getI64IntegerAttr(64));
}

Value TileBuilder::loadVector(Value tile, ValueRange indices) {
  return vector::LoadOp::create(b, vectorType(), tile, indices);
}

void TileBuilder::storeVector(Value value, Value tile, ValueRange indices) {
  vector::StoreOp::create(b, value, tile, indices);
}

void TileBuilder::fill(Value tile, double value) {
  ArrayRef<int64_t> shape = cast<MemRefType>(tile.getType()).getShape();
  Value element = splat(value);
  auto fillRow = [&](ValueRange row) {
    loop(index(0), index(shape.back()), vectorLength(), [&](Value lane) {
      SmallVector<Value> indices(row);
      indices.push_back(lane);
      storeVector(element, tile, indices);
    });
  };
  if (shape.size() == 1)
    return fillRow({});
  loop(index(0), index(shape[0]), 1, [&](Value row) { fillRow(row); });
}

Value TileBuilder::toCompute(Value value) { return convertFloat(b, b.getLoc(), value, compute); }

void TileBuilder::packRows(const RowBlock &rows, int64_t width, Value tile) {
  ArrayRef<int64_t> shape = cast<MemRefType>(tile.getType()).getShape();
  Type element = cast<MemRefType>(rows.buffer.getType()).getElementType();
  auto vector = VectorType::get({vectorLength()}, element);
  int64_t whole = width / vectorLength() * vectorLength();
  loop(index(0), rows.count, 1, [&](Value row) {
    Value source = arith::AddIOp::create(b, rows.begin, row);
    loop(index(0), index(whole), vectorLength(), [&](Value column) {
      Value read =
          vector::LoadOp::create(b, vector, rows.buffer, ValueRange{rows.batch, rows.head, source, column});
      storeVector(toCompute(read), tile, {row, column});
    });
    loop(index(whole), index(width), 1, [&](Value column) {
      Value read = memref::LoadOp::create(b, rows.buffer, ValueRange{rows.batch, rows.head, source, column});
      memref::StoreOp::create(b, toCompute(read), tile, ValueRange{row, column});
    });
    if (shape[1] > width)
      loop(index(width), index(shape[1]), 1,
           [&](Value column) { memref::StoreOp::create(b, scalar(0), tile, ValueRange{row, column}); });
  });
  // A product computes whole register tiles of rows.
  Value padded = arith::MulIOp::create(b, ceilDiv(rows.count, schedule.getRegisterRows()),
                                       index(schedule.getRegisterRows()));
  padded = arith::MinSIOp::create(b, padded, index(shape[0]));
  loop(rows.count, padded, 1, [&](Value row) {
    loop(index(0), index(shape[1]), 1,
         [&](Value column) { memref::StoreOp::create(b, scalar(0), tile, ValueRange{row, column}); });
  });
}

void TileBuilder::packTransposed(const RowBlock &rows, int64_t width, Value tile) {
  int64_t lanes = cast<MemRefType>(tile.getType()).getDimSize(1);
  ifThen(arith::CmpIOp::create(b, arith::CmpIPredicate::slt, rows.count, index(lanes)),
         [&] { fill(tile, 0); });
  loop(index(0), rows.count, 1, [&](Value row) {
    Value source = arith::AddIOp::create(b, rows.begin, row);
    loop(index(0), index(width), 1, [&](Value column) {
      Value read = memref::LoadOp::create(b, rows.buffer, ValueRange{rows.batch, rows.head, source, column});
      memref::StoreOp::create(b, toCompute(read), tile, ValueRange{column, row});
    });
  });
}

Value TileBuilder::hasNonFinite(Value tile, Value rows) {
  int64_t width = cast<MemRefType>(tile.getType()).getDimSize(1);
  int64_t whole = width / vectorLength() * vectorLength();
  // x - x is 0, or NaN where x is not finite.
  auto add = [&](Value sum, Value x) -> Value {
    return arith::AddFOp::create(b, sum, arith::SubFOp::create(b, x, x));
  };
  SmallVector<Value> sums =
      loop(index(0), rows, 1, ValueRange{splat(0), scalar(0)}, [&](Value row, ValueRange carried) {
        SmallVector<Value> vectors =
            loop(index(0), index(whole), vectorLength(), carried[0], [&](Value column, ValueRange sum) {
              return SmallVector<Value>{add(sum[0], loadVector(tile, {row, column}))};
            });
        SmallVector<Value> scalars =
            loop(index(whole), index(width), 1, carried[1], [&](Value column, ValueRange sum) {
              return SmallVector<Value>{
                  add(sum[0], memref::LoadOp::create(b, tile, ValueRange{row, column}))};
            });
        return SmallVector<Value>{vectors[0], scalars[0]};
      });
  Value total = vector::ReductionOp::create(b, vector::CombiningKind::ADD, sums[0], sums[1]);
  return arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, total, total);
}

void TileBuilder::storeTransposed(Value tile, const RowBlock &rows, int64_t width) {
  Type element = cast<MemRefType>(rows.buffer.getType()).getElementType();
  loop(index(0), rows.count, 1, [&](Value row) {
    Value target = arith::AddIOp::create(b, rows.begin, row);
    loop(index(0), index(width), 1, [&](Value column) {
      Value value = memref::LoadOp::create(b, tile, ValueRange{column, row});
      memref::StoreOp::create(b, convertFloat(b, b.getLoc(), value, element), rows.buffer,
                              ValueRange{rows.batch, rows.head, target, column});
    });
  });
}

//===----------------------------------------------------------------------===//
// Matrix product
//===----------------------------------------------------------------------===//

void TileBuilder::product(const Product &p) {
  if (!p.skipZeros)
    return product(p, /*skipsZeros=*/false);
  ifElse(p.skipZeros, [&] { product(p, /*skipsZeros=*/true); }, [&] { product(p, /*skipsZeros=*/false); });
}

void TileBuilder::product(const Product &p, bool skipsZeros) {
  int64_t lanes = cast<MemRefType>(p.c.getType()).getDimSize(1);
  int64_t numRows = schedule.getRegisterRows(), numVectors = schedule.getRegisterVectors();
  assert(cast<MemRefType>(p.c.getType()).getDimSize(0) % numRows == 0 &&
         lanes % (numVectors * vectorLength()) == 0 && "tile is not whole register tiles");

  auto offset = [&](Value base, int64_t by) -> Value {
    return by == 0 ? base : arith::AddIOp::create(b, base, index(by)).getResult();
  };
  std::optional<int64_t> depth = getConstantIntValue(p.depth);
  bool hasParts = depth && *depth > kPartDepth;
  loop(index(0), index(lanes), numVectors * vectorLength(), [&](Value lane) {
    loop(index(0), p.rows, numRows, [&](Value row) {
      auto sumPart = [&](Value begin, Value end) {
        SmallVector<Value> zeros(numRows * numVectors, splat(0));
        return loop(begin, end, 1, zeros, [&](Value k, ValueRange sums) {
          SmallVector<Value> vectors, results;
          SmallVector<Value> isZero;
          for (int64_t v = 0; v < numVectors; ++v) {
            vectors.push_back(loadVector(p.b, {k, offset(lane, v * vectorLength())}));
            if (skipsZeros)
              isZero.push_back(arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, vectors[v], splat(0)));
          }
          for (int64_t r = 0; r < numRows; ++r) {
            Value i = offset(row, r);
            Value element =
                memref::LoadOp::create(b, p.a, p.aTransposed ? ValueRange{k, i} : ValueRange{i, k});
            Value broadcast = vector::BroadcastOp::create(b, vectorType(), element);
            for (int64_t v = 0; v < numVectors; ++v) {
              Value old = sums[r * numVectors + v];
              Value sum = vector::FMAOp::create(b, broadcast, vectors[v], old);
              results.push_back(skipsZeros ? select(isZero[v], old, sum) : sum);
            }
          }
          return results;
        });
      };
      auto update = [&](ArrayRef<Value> sums, bool accumulate, Value factors) {
        for (int64_t r = 0; r < numRows; ++r)
          for (int64_t v = 0; v < numVectors; ++v) {
            Value column = offset(lane, v * vectorLength()), sum = sums[r * numVectors + v];
            if (accumulate) {
              Value old = loadVector(p.c, {offset(row, r), column});
              if (factors)
                sum = vector::FMAOp::create(b, old, loadVector(factors, column), sum);
              else
                sum = arith::AddFOp::create(b, old, sum);
            }
            storeVector(sum, p.c, {offset(row, r), column});
          }
      };
      update(sumPart(index(0), hasParts ? index(kPartDepth) : p.depth), p.accumulate, p.factors);
      if (hasParts)
        loop(index(kPartDepth), p.depth, kPartDepth, [&](Value begin) {
          Value end = offset(begin, kPartDepth);
          if (*depth % kPartDepth != 0)
            end = arith::MinSIOp::create(b, end, p.depth);
          update(sumPart(begin, end), /*accumulate=*/true, /*factors=*/nullptr);
        });
    });
  });
}
