/* server/page/assets.S - the page's files, embedded in read-only data. */
    .section .rodata
#define ASSET(symbol, path, type)                                                                  \
    .globl page_##symbol##_begin;                                                                  \
    .hidden page_##symbol##_begin;                                                                 \
    .globl page_##symbol##_end;                                                                    \
    .hidden page_##symbol##_end;                                                                   \
    page_##symbol##_begin:;                                                                        \
    .incbin path;                                                                                  \
    page_##symbol##_end:;                                                                          \
    .byte 0;
#include "server/page/assets.inc"
    .section .note.GNU-stack,"",@progbits
