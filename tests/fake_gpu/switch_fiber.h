// Going from one stack to another, in instructions of x86-64.
#pragma once

#ifndef __x86_64__
#error "the fake GPU switches between threads with instructions of x86-64; build it on such a host"
#endif

// Keeps the registers that a function must preserve on the stack that is left, and takes them from the other.
extern "C" void fake_gpu_switch_fiber(void** from, void* to);
asm(R"(
.text
.globl fake_gpu_switch_fiber
.hidden fake_gpu_switch_fiber
.type fake_gpu_switch_fiber, @function
fake_gpu_switch_fiber:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size fake_gpu_switch_fiber, .-fake_gpu_switch_fiber
)");
