// RUN: attn-opt %s --attn-verify-llvm --allow-unregistered-dialect --split-input-file --verify-diagnostics

llvm.func @fine(%x: i64) -> i64 {
  llvm.return %x : i64
}

// -----

llvm.func @left(%x: f32, %y: vector<4xf32>) {
  // expected-error @below {{'arith.addf' is left at the end of the CPU pipeline: the conversion to the LLVM dialect has no form for it}}
  %a = arith.addf %x, %x : f32
  // Each kind of operation is reported once.
  %b = arith.addf %a, %x : f32
  // expected-error @below {{'math.cbrt' is left at the end of the CPU pipeline: the lowering of mathematical functions has no form for it}}
  %c = math.cbrt %y : vector<4xf32>
  // A cast next to them tells nothing more.
  %d = builtin.unrealized_conversion_cast %x : f32 to i32
  llvm.return
}

// -----

llvm.func @only_a_cast(%x: f32) {
  // expected-error @below {{'builtin.unrealized_conversion_cast' is left at the end of the CPU pipeline: the conversion of types to LLVM's has no form for it}}
  %d = builtin.unrealized_conversion_cast %x : f32 to index
  llvm.return
}

// -----

// An operation of no dialect that is known.
// expected-error @below {{'foo.bar' is left at the end of the CPU pipeline}}
"foo.bar"() : () -> ()
