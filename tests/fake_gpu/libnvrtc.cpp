// A fake NVRTC: it compiles nothing, but says which of the library's own kernels a source has.
//
// A "program" is a text that names the source's kernels; libcuda reads it. A kernel that libcuda was not
// built with is an error of compilation, with a log: the library and the source are of different versions.

#include <cctype>
#include <cstring>
#include <string>

#include "fake_gpu.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

enum Result : int { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, COMPILATION = 6 };

struct Program {
    std::string source, text, log;
};

bool is_in_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

// The source with comments blanked.
std::string without_comments(const std::string& source) {
    std::string found;
    for (size_t at = 0; at < source.size();) {
        bool is_line = source.compare(at, 2, "//") == 0, is_block = source.compare(at, 2, "/*") == 0;
        if (is_line || is_block) {
            size_t end = source.find(is_line ? "\n" : "*/", at + 2);
            at = end == std::string::npos ? source.size() : end + (is_line ? 0 : 2);
            found += ' ';
        } else {
            found += source[at++];
        }
    }
    return found;
}

// The name of the kernel whose declaration goes on at `at`: the last word before its parameters.
std::string kernel_name(const std::string& source, size_t at) {
    std::string word;
    while (at < source.size()) {
        if (is_in_name(source[at])) {
            word.clear();
            while (at < source.size() && is_in_name(source[at])) {
                word += source[at++];
            }
        } else if (source[at] == '(' && word == "__launch_bounds__") {
            at = source.find(')', at);
            at = at == std::string::npos ? source.size() : at + 1;
        } else if (source[at] == '(') {
            return word;
        } else {
            at++;
        }
    }
    return word;
}

}

// One that the library never had: nobody is to take a compiled program of this one for that one's.
EXPORTED Result nvrtcVersion(int* major, int* minor) {
    *major = 0;
    *minor = 0;
    return SUCCESS;
}

EXPORTED const char* nvrtcGetErrorString(Result error) {
    switch (error) {
        case SUCCESS: return "NVRTC_SUCCESS";
        case INVALID_INPUT: return "NVRTC_ERROR_INVALID_INPUT";
        case INVALID_PROGRAM: return "NVRTC_ERROR_INVALID_PROGRAM";
        case COMPILATION: return "NVRTC_ERROR_COMPILATION";
    }
    return "NVRTC_ERROR unknown";
}

// Headers are not looked at.
EXPORTED Result nvrtcCreateProgram(
    Program** program, const char* source, const char*, int, const char* const*, const char* const*
) {
    if (!program || !source) {
        return INVALID_INPUT;
    }
    *program = new Program{source, "", ""};
    return SUCCESS;
}

EXPORTED Result nvrtcDestroyProgram(Program** program) {
    if (!program || !*program) {
        return INVALID_PROGRAM;
    }
    delete *program;
    *program = nullptr;
    return SUCCESS;
}

// The type of elements that the options define, as in `--define-macro=ELEMENT_F32`; no other option is looked
// at.
static std::string element_of(int num_options, const char* const* options) {
    const std::string mark = "--define-macro=ELEMENT_";
    for (int index = 0; index < num_options; index++) {
        std::string option = options[index];
        if (option.compare(0, mark.size(), mark) == 0) {
            return option.substr(mark.size());
        }
    }
    return "";
}

EXPORTED Result nvrtcCompileProgram(Program* program, int num_options, const char* const* options) {
    if (!program) {
        return INVALID_PROGRAM;
    }
    const std::string element = element_of(num_options, options);
    program->text = "// a program for the fake GPU\n// elements " + element + "\n";
    program->log.clear();
    if (fake_gpu_fails()) {
        program->log = "the failure that FAKE_GPU_FAIL_AT asks for\n";
        return COMPILATION;
    }
    const std::string source = without_comments(program->source), mark = "__global__";
    for (size_t at = source.find(mark); at != std::string::npos; at = source.find(mark, at)) {
        at += mark.size();
        std::string name = kernel_name(source, at);
        program->text += "// kernel " + name + "\n";
        if (!fake_gpu_has_kernel(element.c_str(), name.c_str())) {
            program->log += "error: the fake GPU was built without kernel `" + name + "` for elements of `" +
                            element + "`; build it again\n";
        }
    }
    return program->log.empty() ? SUCCESS : COMPILATION;
}

// With the zero at the end.
static Result give_size(Program* program, size_t* size, std::string Program::*text) {
    if (!program) {
        return INVALID_PROGRAM;
    }
    *size = (program->*text).size() + 1;
    return SUCCESS;
}

static Result give_text(Program* program, char* to, std::string Program::*text) {
    if (!program) {
        return INVALID_PROGRAM;
    }
    memcpy(to, (program->*text).c_str(), (program->*text).size() + 1);
    return SUCCESS;
}

EXPORTED Result nvrtcGetPTXSize(Program* program, size_t* size) {
    return give_size(program, size, &Program::text);
}
EXPORTED Result nvrtcGetPTX(Program* program, char* to) { return give_text(program, to, &Program::text); }
EXPORTED Result nvrtcGetCUBINSize(Program* program, size_t* size) {
    return give_size(program, size, &Program::text);
}
EXPORTED Result nvrtcGetCUBIN(Program* program, char* to) { return give_text(program, to, &Program::text); }
EXPORTED Result nvrtcGetProgramLogSize(Program* program, size_t* size) {
    return give_size(program, size, &Program::log);
}
EXPORTED Result nvrtcGetProgramLog(Program* program, char* to) {
    return give_text(program, to, &Program::log);
}
