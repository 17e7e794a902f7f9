// RUN: attn-opt %s --attn-lower-math | FileCheck %s
// The accuracy is tested where the code runs: test/unit/CpuExecutableTest.cpp.

// CHECK-DAG: func.func private @sinf(f32) -> f32
// CHECK-DAG: func.func private @exp(f64) -> f64

// One clamp, a polynomial of six multiply-adds, an integer addition to the exponent; no branch.

// CHECK-LABEL: func.func @exp_vector(
// CHECK-NOT:     math.exp
// CHECK-COUNT-2: arith.select
// CHECK-COUNT-9: math.fma {{.*}} vector<16xf32>
// CHECK:         arith.shli
// CHECK:         arith.addi
// CHECK:         arith.mulf
// CHECK-NEXT:    return
func.func @exp_vector(%x: vector<16xf32>) -> vector<16xf32> {
  %r = math.exp %x : vector<16xf32>
  return %r : vector<16xf32>
}

// CHECK-LABEL: func.func @other_polynomials(
// CHECK-NOT:     math.{{exp|log|tanh}}
// CHECK-NOT:     call
// CHECK:         return
func.func @other_polynomials(%x: f32) -> f32 {
  %a = math.exp2 %x : f32
  %b = math.log %a : f32
  %c = math.log2 %b : f32
  %d = math.tanh %c : f32
  return %d : f32
}

// CHECK-LABEL: func.func @libm(
// CHECK-COUNT-2: call @sinf(%{{.*}}) : (f32) -> f32
// CHECK:         call @exp(%{{.*}}) : (f64) -> f64
func.func @libm(%x: vector<2xf32>, %y: f64) -> (vector<2xf32>, f64) {
  %a = math.sin %x : vector<2xf32>
  %b = math.exp %y : f64
  return %a, %b : vector<2xf32>, f64
}

// CHECK-LABEL: func.func @instructions(
// CHECK:         math.sqrt
// CHECK:         math.fma
// CHECK:         math.floor
func.func @instructions(%x: vector<4xf32>) -> vector<4xf32> {
  %a = math.sqrt %x : vector<4xf32>
  %b = math.fma %a, %x, %x : vector<4xf32>
  %c = math.floor %b : vector<4xf32>
  return %c : vector<4xf32>
}

// CHECK-LABEL: func.func @bfloat(
// CHECK-NOT:     arith.truncf
// CHECK:         arith.bitcast %{{.*}} : vector<8xi16> to vector<8xbf16>
func.func @bfloat(%x: vector<8xf32>) -> vector<8xbf16> {
  %r = arith.truncf %x : vector<8xf32> to vector<8xbf16>
  return %r : vector<8xbf16>
}

// The rounding between two operations on small floats stays.

// CHECK-LABEL: func.func @rounds(
// CHECK:         %[[A:.*]] = arith.truncf %{{.*}} : f32 to f16
// CHECK:         arith.extf %[[A]] : f16 to f32
func.func @rounds(%x: f32) -> f32 {
  %a = arith.truncf %x fastmath<contract> : f32 to f16
  %b = arith.extf %a fastmath<contract> : f16 to f32
  return %b : f32
}

// What upstream does not lower: made of what it does. A power of integers has no form; the pipeline refuses it at its end.

// CHECK-LABEL: func.func @sincos(
// CHECK-DAG:     call @sinf
// CHECK-DAG:     call @cosf
func.func @sincos(%x: f32) -> (f32, f32) {
  %sin, %cos = math.sincos %x : f32
  return %sin, %cos : f32, f32
}

// CHECK-LABEL: func.func @classes(
// CHECK-DAG:     %[[INF:.*]] = arith.constant dense<0x7F800000> : vector<8xf32>
// CHECK-DAG:     %[[LEAST:.*]] = arith.constant dense<1.17549435E-38> : vector<8xf32>
// CHECK:         %[[ABS:.*]] = math.absf %{{.*}} : vector<8xf32>
// CHECK:         arith.cmpf oeq, %[[ABS]], %[[INF]]
// CHECK:         arith.cmpf oge, %{{.*}}, %[[LEAST]]
// CHECK:         arith.cmpf olt, %{{.*}}, %[[INF]]
func.func @classes(%x: vector<8xf32>) -> (vector<8xi1>, vector<8xi1>) {
  %inf = math.isinf %x : vector<8xf32>
  %normal = math.isnormal %x : vector<8xf32>
  return %inf, %normal : vector<8xi1>, vector<8xi1>
}

// CHECK-LABEL: func.func @clamp(
// CHECK-NOT:     math.clampf
// CHECK:         return
func.func @clamp(%x: f32, %low: f32, %high: f32) -> f32 {
  %clamped = math.clampf %x to [%low, %high] : f32
  return %clamped : f32
}

// CHECK-LABEL: func.func @power(
// CHECK:         math.ipowi
func.func @power(%x: i32, %y: i32) -> i32 {
  %power = math.ipowi %x, %y : i32
  return %power : i32
}
