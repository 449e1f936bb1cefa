/* A C program links the library and finds the interface it was compiled for. */
#include "nanocm.h"
#include <stdio.h>

int main(void)
{
    if (ncm_abi_version() != NCM_ABI_VERSION) {
        fprintf(stderr, "nanocm.h is of ABI %u, the library of %u\n", NCM_ABI_VERSION,
                ncm_abi_version());
        return 1;
    }
    return printf("nanocm %s\n", ncm_version()) > 0 ? 0 : 1;
}
