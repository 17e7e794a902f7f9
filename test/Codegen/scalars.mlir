// RUN: attn-translate --attn-to-cuda %s | FileCheck %s
// RUN: %if nvrtc %{ attn-translate --attn-to-ptx --arch=sm_80 %s -o %t.ptx %}

gpu.module @functions {
  // Parentheses where C++ needs them, and where a reader would.
  // CHECK-LABEL: float parentheses(const float a, const float b, const float c) {
  // CHECK-NEXT:    const float product = b * c;
  // CHECK-NEXT:    const float quotient = a / (product / c);
  // CHECK-NEXT:    return (a - (b - c)) * -quotient;
  gpu.func @parentheses(%a: f32, %b: f32, %c: f32) -> f32 {
    %0 = arith.subf %b, %c : f32
    %1 = arith.subf %a, %0 : f32
    %product = arith.mulf %b, %c : f32
    %2 = arith.divf %product, %c : f32
    %quotient = arith.divf %a, %2 : f32
    %3 = arith.negf %quotient : f32
    %4 = arith.mulf %1, %3 : f32
    gpu.return %4 : f32
  }

  // Without nsw an operation may wrap around, with it it is an operator.
  // CHECK-LABEL: int integers(const int a, const int b) {
  // CHECK-NEXT:    const int sum = wrap_add(a, b) + a * b;
  // CHECK-NEXT:    const int remainder = divide(sum, b) % 8;
  // CHECK-NEXT:    return (remainder & a) | shift_left(remainder, 2);
  gpu.func @integers(%a: i32, %b: i32) -> i32 {
    %c2 = arith.constant 2 : i32
    %c8 = arith.constant 8 : i32
    %0 = arith.addi %a, %b : i32
    %1 = arith.muli %a, %b overflow<nsw> : i32
    %sum = arith.addi %0, %1 overflow<nsw> : i32
    %2 = arith.divsi %sum, %b : i32
    %remainder = arith.remsi %2, %c8 : i32
    %3 = arith.andi %remainder, %a : i32
    %4 = arith.shli %remainder, %c2 : i32
    %5 = arith.ori %3, %4 : i32
    gpu.return %5 : i32
  }

  // CHECK-LABEL: bool conditions(const int i, const float x, const bool p) {
  // CHECK-NEXT:    const bool kept = (i < 5 || uint32(i) >= uint32(-3)) && !(x <= 1.5f);
  // CHECK-NEXT:    return kept && !p;
  gpu.func @conditions(%i: index, %x: f32, %p: i1) -> i1 {
    %c5 = arith.constant 5 : index
    %negative = arith.constant -3 : index
    %limit = arith.constant 1.5 : f32
    %true = arith.constant true
    %0 = arith.cmpi slt, %i, %c5 : index
    %1 = arith.cmpi uge, %i, %negative : index
    %2 = arith.ori %0, %1 : i1
    %3 = arith.cmpf ugt, %x, %limit : f32
    %kept = arith.andi %2, %3 : i1
    %4 = arith.xori %p, %true : i1
    %5 = arith.andi %kept, %4 : i1
    gpu.return %5 : i1
  }

  // Every number reads back as itself.
  // CHECK-LABEL: float literals(
  // CHECK:         const float a = x + 0.1f + 3.4028235e+38f;
  // CHECK-NEXT:    const float b = a - 0x0.000002p-126f - -kInfinity;
  // CHECK-NEXT:    const float c = b * bit_cast<float>(int(0x7fc00001)) * -0.0f;
  // CHECK-NEXT:    const float d = c + float(bf16(1.5f)) + float(n == -9223372036854775807ll - 1);
  gpu.func @literals(%x: f32, %n: i64) -> f32 {
    %tenth = arith.constant 0.1 : f32
    %largest = arith.constant 0x7F7FFFFF : f32
    %smallest = arith.constant 0x00000001 : f32
    %infinity = arith.constant 0xFF800000 : f32
    %nan = arith.constant 0x7FC00001 : f32
    %zero = arith.constant -0.0 : f32
    %half = arith.constant 1.5 : bf16
    %least = arith.constant -9223372036854775808 : i64
    %0 = arith.addf %x, %tenth : f32
    %a = arith.addf %0, %largest : f32
    %1 = arith.subf %a, %smallest : f32
    %b = arith.subf %1, %infinity : f32
    %2 = arith.mulf %b, %nan : f32
    %c = arith.mulf %2, %zero : f32
    %3 = arith.extf %half : bf16 to f32
    %4 = arith.addf %c, %3 : f32
    %5 = arith.cmpi eq, %n, %least : i64
    %6 = arith.uitofp %5 : i1 to f32
    %d = arith.addf %4, %6 : f32
    gpu.return %d : f32
  }

  // Full precision, or the hardware's approximation where afn allows it; 16-bit floats are computed in float.
  // CHECK-LABEL: f16 functions(const f16 x, const float y, const double z) {
  // CHECK-NEXT:    const float a = tanhf(y) + tanh_approx(y);
  // CHECK-NEXT:    const double b = exp(z);
  // CHECK-NEXT:    const f16 c = f16(exp2f(x));
  // CHECK-NEXT:    return f16(f16(c + round_to<f16>(b)) + f16(a));
  gpu.func @functions(%x: f16, %y: f32, %z: f64) -> f16 {
    %0 = math.tanh %y : f32
    %1 = math.tanh %y fastmath<afn> : f32
    %a = arith.addf %0, %1 : f32
    %b = math.exp %z : f64
    %c = math.exp2 %x : f16
    %2 = arith.truncf %b : f64 to f16
    %3 = arith.addf %c, %2 : f16
    %4 = arith.truncf %a : f32 to f16
    %5 = arith.addf %3, %4 : f16
    gpu.return %5 : f16
  }

  // So is a division; where nothing allows it, it is exact.
  // CHECK-LABEL: float division(
  // CHECK-NEXT:    return divide_approx(a, b) / b;
  gpu.func @division(%a: f32, %b: f32) -> f32 {
    %0 = arith.divf %a, %b fastmath<afn> : f32
    %1 = arith.divf %0, %b : f32
    gpu.return %1 : f32
  }

  // maximumf propagates NaN, maxnumf does not.
  // CHECK-LABEL: float extrema(
  // CHECK-NEXT:    return maximum(a, maximum_number(a, b));
  gpu.func @extrema(%a: f32, %b: f32) -> f32 {
    %0 = arith.maxnumf %a, %b : f32
    %1 = arith.maximumf %a, %0 : f32
    gpu.return %1 : f32
  }

  // Long expressions get variables in between.
  // CHECK-LABEL: float long_sum(
  // CHECK-NEXT:    const float sum = x + y + x + y + x + y;
  // CHECK-NEXT:    return sum;
  gpu.func @long_sum(%x: f32, %y: f32) -> f32 {
    %0 = arith.addf %x, %y : f32
    %1 = arith.addf %0, %x : f32
    %2 = arith.addf %1, %y : f32
    %3 = arith.addf %2, %x : f32
    %4 = arith.addf %3, %y : f32
    gpu.return %4 : f32
  }
}
