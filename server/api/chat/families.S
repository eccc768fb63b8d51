/* server/api/chat/families.S - the descriptions of families/, one behind the other, in read-only
 * data. */
    .section .rodata
    .globl family_texts
    .hidden family_texts
    .globl family_texts_end
    .hidden family_texts_end
family_texts:
    .incbin FAMILIES
family_texts_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits
