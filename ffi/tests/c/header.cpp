// The header is C++ too.
#include "nanocm.h"
#include <cstdio>
#include <cstring>

int main()
{
    ncm_capacity capacity;
    ncm_error error = ncm_capacity_init(&capacity, sizeof capacity, 16);
    bool same = ncm_abi_version() == NCM_ABI_VERSION;
    if (error != NCM_OK || !same || std::strcmp(ncm_error_name(error), "NCM_OK") != 0)
        return 1;
    return std::printf("header.cpp: nanocm %s\n", ncm_version()) > 0 ? 0 : 1;
}
