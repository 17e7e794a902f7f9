//===- BuildId.cpp - which build of the project this is ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/BuildId.h"
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>

namespace attn {

namespace {
/// The build id among the notes of a segment, in hexadecimal, or nothing.
std::string findInNotes(const char *notes, size_t size) {
  auto pad = [](size_t length) { return (length + 3) & ~size_t(3); };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    memcpy(&header, notes, sizeof(header));
    size_t length = sizeof(header) + pad(header.n_namesz) + pad(header.n_descsz);
    if (length > size)
      break;
    const char *name = notes + sizeof(header), *id = name + pad(header.n_namesz);
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && !memcmp(name, "GNU", 4)) {
      std::string text;
      for (size_t i = 0; i < header.n_descsz; ++i) {
        text += "0123456789abcdef"[static_cast<unsigned char>(id[i]) >> 4];
        text += "0123456789abcdef"[id[i] & 15];
      }
      return text;
    }
    notes += length;
    size -= length;
  }
  return "";
}

/// Called for each program and library of the process; fills in for the one that holds this function.
int visitObject(dl_phdr_info *info, size_t, void *result) {
  auto here = reinterpret_cast<uintptr_t>(&visitObject);
  bool isOurs = false;
  std::string id;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD)
      isOurs |= here >= begin && here - begin < segment.p_memsz;
    else if (segment.p_type == PT_NOTE && id.empty())
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives numbers
      id = findInNotes(reinterpret_cast<const char *>(begin), segment.p_memsz);
  }
  if (!isOurs)
    return 0;
  struct stat file;
  if (id.empty() && !stat(*info->dlpi_name ? info->dlpi_name : "/proc/self/exe", &file))
    id = std::to_string(file.st_size) + "@" + std::to_string(file.st_mtim.tv_sec) + "." +
         std::to_string(file.st_mtim.tv_nsec);
  *static_cast<std::string *>(result) = id;
  return 1;
}
} // namespace

const std::string &getBuildId() {
  static const std::string id = [] {
    std::string id;
    dl_iterate_phdr(visitObject, &id);
    return id;
  }();
  return id;
}

} // namespace attn
