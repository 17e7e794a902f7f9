# cmake -DOUTPUT=file -DROOT=folder -P EmbedHeaders.cmake: a table of the device headers below ROOT.
file(GLOB headers RELATIVE ${ROOT} ${ROOT}/attn/*.cuh)
list(SORT headers)
set(table "")
foreach(header IN LISTS headers)
  file(READ ${ROOT}/${header} text)
  string(APPEND table "{\"${header}\", R\"cuh(${text})cuh\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${table}")
