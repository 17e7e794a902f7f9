// The least integer over -1, and a division by 0, trap on a CPU. Here they are of a pair that is dropped, and of a branch that
// is not taken: no order of evaluation may show them.
// RUN: attn-run %s --entry=dropped --q-len=67 --kv-len=131 --check
// RUN: attn-run %s --entry=dropped --q-len=67 --kv-len=131 --check --order=key-outer
// RUN: attn-run %s --entry=dropped --q-len=67 --kv-len=131 --check --backward
// RUN: attn-run %s --entry=not_taken --q-len=67 --kv-len=131 --check
// RUN: attn-run %s --entry=not_taken --q-len=67 --kv-len=131 --check --backward
// RUN: attn-run %s --entry=not_taken --q-len=67 --kv-len=131 --check --target=x86-64

!t = tensor<?x?x?x16xf32>
!l = tensor<?x?x?xf32>

// Of query 0 and key 0.
func.func @dropped(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %out, %lse = attn.attention %q, %k, %v
    score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %least = arith.constant -2147483648 : i32
      %minus_one = arith.constant -1 : i32
      %key = arith.index_cast %kv_idx : index to i32
      %query = arith.index_cast %q_idx : index to i32
      %dividend = arith.addi %least, %key : i32
      %divisor = arith.subi %minus_one, %query : i32
      %quotient = arith.divsi %dividend, %divisor : i32
      %scaled = arith.sitofp %quotient : i32 to f32
      %tiny = arith.constant 1.0e-9 : f32
      %bias = arith.mulf %scaled, %tiny : f32
      %r = arith.addf %s, %bias : f32
      attn.yield %r : f32
    }
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %keep = arith.cmpi sgt, %kv_idx, %q_idx : index
      attn.yield %keep : i1
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}

func.func @not_taken(%q: !t, %k: !t, %v: !t) -> (!t, !l) {
  %out, %lse = attn.attention %q, %k, %v
    mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {
      %least = arith.constant -2147483648 : i32
      %minus_one = arith.constant -1 : i32
      %zero = arith.constant 0 : i32
      %key = arith.index_cast %kv_idx : index to i32
      %query = arith.index_cast %q_idx : index to i32
      %dividend = arith.addi %least, %key : i32
      %divisor = arith.subi %minus_one, %query : i32
      %is_late = arith.cmpi ne, %key, %zero : i32
      %keep = scf.if %is_late -> i1 {
        %remainder = arith.remsi %dividend, %divisor : i32
        %quotient = arith.floordivsi %dividend, %divisor : i32
        %sum = arith.addi %remainder, %quotient : i32
        %two = arith.constant 2 : i32
        %parity = arith.remui %sum, %two : i32
        %keeps = arith.cmpi eq, %parity, %zero : i32
        scf.yield %keeps : i1
      } else {
        scf.yield %is_late : i1
      }
      attn.yield %keep : i1
    } : (!t, !t, !t) -> (!t, !l)
  return %out, %lse : !t, !l
}
