/* config/demo_model.S - the demo model's file, embedded in read-only data. */
    .section .rodata
    .balign 64
    .globl quire_demo_begin
    .hidden quire_demo_begin
    .globl quire_demo_end
    .hidden quire_demo_end
quire_demo_begin:
    .incbin "config/demo/quire-demo.gguf"
quire_demo_end:
    .byte 0
    .section .note.GNU-stack,"",@progbits
