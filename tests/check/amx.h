/* tests/check/amx.h - the instructions of AMX that kernels use, on CPUs that do not have them.
 *
 * Such a CPU says that an instruction is invalid; what it would do is then done by a model in C of
 * Intel's definition, to eight tiles of each thread, and the program goes on behind it. Thus the
 * bodies are checked as they were compiled. A kernel that another program has compiled wrongly for
 * a real CPU would not be found here; one with wrong operands, shapes or strides is.
 *
 * Thread: any, once the model is there; tiles are a thread's own.
 * Memory: none.
 */
#ifndef TESTS_CHECK_AMX_H
#define TESTS_CHECK_AMX_H

/* Install the handler of SIGILL that carries out AMX's instructions. Any other invalid instruction
 * still ends the program. */
void amx_model_install(void);

#endif
