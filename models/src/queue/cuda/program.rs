//! The kernels, compiled for the device that is there.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, CudaFunction};
use cudarc::nvrtc::{self, Ptx};

use super::kernel_cache::KernelCache;
use super::libraries::NoCuda;
use super::said::said;
use crate::element::ElementType;

/// The sources of the kernels that read or write elements, in files named by operation, below what they share. They are one program: NVRTC
/// reads no files.
const OF_ELEMENTS: [&str; 23] = [
    include_str!("kernels/common.cuh"),
    include_str!("kernels/documents.cuh"),
    include_str!("kernels/element.cuh"),
    include_str!("kernels/wide.cuh"),
    include_str!("kernels/column_sums.cuh"),
    include_str!("kernels/convert.cu"),
    include_str!("kernels/gelu.cu"),
    include_str!("kernels/swiglu.cu"),
    include_str!("kernels/norm.cuh"),
    include_str!("kernels/norm.cu"),
    include_str!("kernels/norm_backward.cu"),
    include_str!("kernels/bias.cu"),
    include_str!("kernels/heads.cuh"),
    include_str!("kernels/rope.cu"),
    include_str!("kernels/head_norm.cu"),
    include_str!("kernels/attention.cuh"),
    include_str!("kernels/attention.cu"),
    include_str!("kernels/attention_backward.cu"),
    include_str!("kernels/dropout.cu"),
    include_str!("kernels/embedding.cu"),
    include_str!("kernels/positions.cu"),
    include_str!("kernels/cross_entropy.cuh"),
    include_str!("kernels/cross_entropy_backward.cu"),
];

/// Those of the kernels that have f32 alone.
const OF_F32: [&str; 5] = [
    include_str!("kernels/cross_entropy.cu"),
    include_str!("kernels/sum.cu"),
    include_str!("kernels/square_sum.cu"),
    include_str!("kernels/adamw.cu"),
    include_str!("kernels/sgd.cu"),
];

/// Those of the kernels that have 16 bits alone.
const OF_HALVES: [&str; 6] = [
    include_str!("kernels/warp.cuh"),
    include_str!("kernels/attention_mma.cuh"),
    include_str!("kernels/attention_mma_tiles.cuh"),
    include_str!("kernels/attention_mma.cu"),
    include_str!("kernels/attention_mma_backward_queries.cu"),
    include_str!("kernels/attention_mma_backward_keys.cu"),
];

/// The kernels for elements of one type, by their names.
#[derive(Debug)]
pub(super) struct Program {
    functions: HashMap<&'static str, CudaFunction>,
}

impl Program {
    /// Compiles the kernels for elements of a type, and for a device of this compute capability, such as (9, 0).
    pub(super) fn compile(
        context: &Arc<CudaContext>,
        capability: (i32, i32),
        element: ElementType,
    ) -> Result<Self, NoCuda> {
        let refused = |call: &'static str, reason: String| NoCuda::Refused { call, reason };
        let ptx = compiled_once(capability, element)?;
        let module = context
            .load_module(ptx)
            .map_err(|error| refused("loading the compiled kernels", said(&error)))?;
        let mut functions = HashMap::new();
        for name in kernel_names(element) {
            let function = module.load_function(name).map_err(|error| {
                refused("looking for a compiled kernel", format!("{name}: {}", said(&error)))
            })?;
            functions.insert(name, function);
        }
        Ok(Self { functions })
    }

    /// A kernel.
    ///
    /// # Panics
    /// If there is none of this name.
    pub(super) fn kernel(&self, name: &str) -> &CudaFunction {
        self.functions.get(name).unwrap_or_else(|| panic!("there is no kernel `{name}`"))
    }
}

/// The sources of the program for elements of a type.
pub(super) fn sources(element: ElementType) -> impl Iterator<Item = &'static str> {
    let others: &[_] = if element == ElementType::F32 { &OF_F32 } else { &OF_HALVES };
    OF_ELEMENTS.iter().chain(others).copied()
}

/// The kernels that they define.
fn kernel_names(element: ElementType) -> impl Iterator<Item = &'static str> {
    let after_mark = sources(element).flat_map(|source| source.split("__global__ void").skip(1));
    after_mark.filter_map(|text| {
        let text = text.trim_start();
        let text = text
            .strip_prefix("__launch_bounds__")
            .map_or(text, |text| text.split_once(')').map_or(text, |(_, rest)| rest).trim_start());
        text.split('(').next().map(str::trim).filter(|name| !name.is_empty())
    })
}

/// The compiled programs of this process: devices of one kind, opened together or one after the other, share them.
static COMPILED: Mutex<BTreeMap<CompiledFor, Ptx>> = Mutex::new(BTreeMap::new());

/// A compute capability, and a type of elements.
type CompiledFor = ((i32, i32), &'static str);

fn compiled_once(capability: (i32, i32), element: ElementType) -> Result<Ptx, NoCuda> {
    let mut compiled_before = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (capability, name_of(element));
    if let Some(ptx) = compiled_before.get(&key) {
        return Ok(ptx.clone());
    }
    let ptx = compiled(&sources(element).collect::<Vec<_>>().join("\n"), capability, element)?;
    compiled_before.insert(key, ptx.clone());
    Ok(ptx)
}

fn compiled(source: &str, (major, minor): (i32, i32), element: ElementType) -> Result<Ptx, NoCuda> {
    let refused = |call: &'static str, reason: String| NoCuda::Refused { call, reason };
    let options = [
        format!("--gpu-architecture=compute_{major}{minor}"),
        "--std=c++17".to_owned(),
        "--fmad=false".to_owned(),
        // For NVIDIA's tools, which then name the line of a kernel.
        "--generate-line-info".to_owned(),
        format!("--define-macro=ELEMENT_{}", name_of(element)),
    ];
    let version = compiler_version().map_err(|error| refused("nvrtcVersion", said(&error)))?;
    let cache = KernelCache::of(source, &options, version);
    let kept = |reason| refused("keeping compiled kernels", reason);
    if let Some(ptx) = cache.read().map_err(kept)? {
        return Ok(Ptx::from_src(ptx));
    }
    let source = CString::new(source).expect("the sources have no zero byte");
    let program = nvrtc::result::create_program(&source, Some(c"pipezero.cu"))
        .map_err(|error| refused("nvrtcCreateProgram", said(&error)))?;
    // SAFETY: the program was created above, and is destroyed below.
    let ptx = unsafe {
        let ptx = match nvrtc::result::compile_program(program, &options) {
            Ok(()) => nvrtc::result::get_ptx(program)
                .map(|ptx| ptx.iter().map(|&byte| byte.cast_unsigned()).collect::<Vec<u8>>())
                .map_err(|error| refused("nvrtcGetPTX", said(&error))),
            Err(error) => {
                let log = nvrtc::result::get_program_log(program).unwrap_or_default();
                let log: Vec<u8> = log.iter().map(|&byte| byte.cast_unsigned()).collect();
                let log = String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned();
                Err(refused("compiling the kernels", format!("{}: {log}", said(&error))))
            }
        };
        let _ = nvrtc::result::destroy_program(program);
        ptx
    }?;
    let text = CStr::from_bytes_until_nul(&ptx).map_or_else(
        |_| String::from_utf8_lossy(&ptx).into_owned(),
        |text| text.to_string_lossy().into_owned(),
    );
    cache.write(&text).map_err(kept)?;
    Ok(Ptx::from_src(text))
}

fn compiler_version() -> Result<(i32, i32), nvrtc::result::NvrtcError> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both numbers are written before the call returns.
    unsafe { nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor).result()? };
    Ok((major, minor))
}

/// As `kernels/element.cuh` has it.
fn name_of(element: ElementType) -> &'static str {
    match element {
        ElementType::F32 => "F32",
        ElementType::Bf16 => "BF16",
        ElementType::F16 => "F16",
        ElementType::U32 => panic!("no kernel computes in u32"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_the_sources_is_found_by_its_name_once() {
        for element in [ElementType::F32, ElementType::Bf16, ElementType::F16] {
            let mut names: Vec<_> = kernel_names(element).collect();
            let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            assert!(names.len() > 20 && names.iter().all(is_name), "{names:?}");
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        }
    }
}
