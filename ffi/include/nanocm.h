/* nanocm: an RDMA connection manager. See ffi/src/lib.rs for the conventions. */
#ifndef NANOCM_H
#define NANOCM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts incompatible changes of this file. */
#define NCM_ABI_VERSION 0u

/* The version of the interface the library was built with: compare it with NCM_ABI_VERSION. */
uint32_t ncm_abi_version(void);

/* The library's version as text, for people. Static; do not free it. */
const char *ncm_version(void);

#ifdef __cplusplus
}
#endif

#endif
