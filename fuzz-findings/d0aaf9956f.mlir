// attn-opt %s
// signal 11 in mlir::gpu::GPUDialect::verifyOperationAttribute < mlir::verify < mlir::parseAsmSourceFile
"builtin.module"() ({
  "func.func"() <{arg_attrs = [{bufferization.writable = false}], function_type = (tensor<0x4x0x64xbf16>) -> (), sym_name = "map"}> ({
  ^bb0(%arg2: tensor<0x4x0x64xbf16>):
    %3 = "arith.constant"() <{value = 1 : index}> : () -> index
    %4 = "bufferization.to_buffer"(%arg2) <{read_only}> : (tensor<0x4x0x64xbf16>) -> memref<0x4x0x64xbf16, strided<[?, ?, ?, 1], offset: ?>>
    %5 = "attn_tile.tensor_map"(%4) : (memref<0x4x0x64xbf16, strided<[?, ?, ?, 1], offset: ?>>) -> !attn_tile.tensor_map<64x64xbf16>
  }) : () -> ()
  "func.func"() <{arg_attrs = [{bufferization.writable = false}], function_type = (tensor<0x4x0x64xbf16>) -> (), sym_name = "map_reference"}> ({
  ^bb0(%arg1: tensor<0x4x0x64xbf16>):
    %0 = "arith.constant"() <{value = 1 : index}> : () -> index
    %1 = "bufferization.to_buffer"(%arg1) <{read_only}> : (tensor<0x4x0x64xbf16>) -> memref<0x4x0x64xbf16, strided<[?, ?, ?, 1], offset: ?>>
    %2 = "attn_tile.tensor_map"(%1) : (memref<0x4x0x64xbf16, strided<[?, ?, ?, 1], offset: ?>>) -> !attn_tile.tensor_map<64x64xbf16>
    "gpu.launch_func"(%0, %0, %0, %0, %0, %0, %2) <{kernel = @kernels::@kernel, operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 17, 1, 0, 0, 0, 0, 1, 0>}> : (index, index, index, index, index, index, !attn_tile.tensor_map<64x64xbf16>) -> ()
  }) : () -> ()
  "gpu.module"() <{sym_name = "kernels"}> ({
    "gpu.func"() <{function_type = (!attn_tile.tensor_map<64x64xbf16>) -> ()}> ({
    }) {gpu.kernel, sym_name = "kernel", workgroup_attributions = 0 : i64} : () -> ()
  }) : () -> ()
}) {gpu.container_module} : () -> ()
