//! Whether the libraries are there that a GPU needs: they are looked for at run time, so that one binary serves every host.

use std::error::Error;

use cudarc::{cublaslt, driver, nvrtc};

/// The file of the driver, without which a host has no GPU.
const DRIVER: &str = "libcuda.so";

/// Why there is no GPU to compute on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoCuda {
    /// A library is not installed, or not where the loader looks.
    #[error(
        "no library `{name}` ({what}), for which the loader looked in LD_LIBRARY_PATH and the system's folders; {repair}"
    )]
    Library {
        /// The name of its file.
        name: &'static str,
        /// What it is.
        what: &'static str,
        /// How to get it.
        repair: &'static str,
    },
    /// A library is there, and the loader does not take it.
    #[error("library `{name}` ({what}) is there and cannot be used: {reason}; {repair}")]
    Unloadable {
        /// The name of its file.
        name: &'static str,
        /// What it is.
        what: &'static str,
        /// What the loader says.
        reason: String,
        /// How to get one that can be loaded.
        repair: &'static str,
    },
    /// The driver knows of no device.
    #[error("the driver knows of no GPU{}; `nvidia-smi -L` lists those of the host", among(visible.as_deref()))]
    NoDevice {
        /// `CUDA_VISIBLE_DEVICES`, if it is set.
        visible: Option<String>,
    },
    /// The driver knows of fewer devices.
    #[error("the driver has {num_devices} devices, and number {ordinal} was asked for, counted from 0")]
    Device {
        /// The device that was asked for.
        ordinal: usize,
        /// How many there are.
        num_devices: usize,
    },
    /// A device lacks what the engine needs.
    #[error("GPU {ordinal} {lack}; show the program other devices, with CUDA_VISIBLE_DEVICES")]
    Unfit {
        /// The device.
        ordinal: usize,
        /// What it lacks.
        lack: String,
    },
    /// Devices of the host are not connected so that each reaches the other's memory.
    #[error(
        "GPU {one} cannot reach the memory of GPU {other}; show the program devices that can, for example with CUDA_VISIBLE_DEVICES={one}"
    )]
    Apart {
        /// A device.
        one: usize,
        /// Another.
        other: usize,
    },
    /// The driver or a library refused.
    #[error("{call}: {reason}")]
    Refused {
        /// What was asked of it.
        call: &'static str,
        /// What it said.
        reason: String,
    },
}

impl NoCuda {
    /// Whether the host has no GPU, or none that is shown; else it seems to have one that cannot be used.
    pub fn is_absence(&self) -> bool {
        matches!(self, Self::Library { name: DRIVER, .. } | Self::NoDevice { .. })
    }

    /// What is missing, without a repair, for users who did not ask for a GPU.
    pub fn in_short(&self) -> String {
        match self {
            Self::Library { name, what, .. } => format!("no library `{name}` ({what})"),
            Self::NoDevice { visible } => format!("the driver knows of none{}", among(visible.as_deref())),
            other => other.to_string(),
        }
    }

    /// The driver has answered that there is no device.
    pub(super) fn no_device() -> Self {
        let visible = std::env::var_os("CUDA_VISIBLE_DEVICES");
        Self::NoDevice { visible: visible.map(|list| list.to_string_lossy().into_owned()) }
    }
}

fn among(visible: Option<&str>) -> String {
    visible.map_or_else(String::new, |list| {
        format!(" among those that CUDA_VISIBLE_DEVICES=\"{list}\" shows it")
    })
}

/// Checks that the libraries can be loaded; they are loaded once and stay.
///
/// # Errors
/// [`NoCuda::Library`] and [`NoCuda::Unloadable`], the driver's first.
pub(super) fn check_libraries() -> Result<(), NoCuda> {
    // SAFETY: these load a library and ask it for nothing. Its initialisers run, which is what the caller wants.
    let present = unsafe {
        [driver::sys::is_culib_present(), nvrtc::sys::is_culib_present(), cublaslt::sys::is_culib_present()]
    };
    let toolkit = "install NVIDIA's CUDA toolkit 13, or its packages for Python, and name their folders in LD_LIBRARY_PATH";
    let libraries = [
        (DRIVER, "the GPU driver's", "install NVIDIA's driver on a host that has a GPU"),
        ("libnvrtc.so", "which compiles kernels", toolkit),
        ("libcublasLt.so", "which multiplies matrices", toolkit),
    ];
    if let Some(missing) = present.iter().position(|&is_present| !is_present) {
        let (name, what, repair) = libraries[missing];
        return Err(match why_not_loaded(name) {
            Some(reason) => NoCuda::Unloadable { name, what, reason, repair },
            None => NoCuda::Library { name, what, repair },
        });
    }
    // SAFETY: the libraries can be loaded.
    let loaded = unsafe { [driver::sys::culib(), nvrtc::sys::culib(), cublaslt::sys::culib()] };
    for ((name, what, repair), (library, functions)) in
        libraries.into_iter().zip(loaded.iter().zip(FUNCTIONS))
    {
        // SAFETY: the function is looked for and not called.
        let has = |function: &&&str| unsafe { library.get::<*const ()>(function.as_bytes()) }.is_ok();
        if let Some(function) = functions.iter().find(|function| !has(function)) {
            let reason = format!("it has no function `{function}`, as another library or version");
            return Err(NoCuda::Unloadable { name, what, reason, repair });
        }
    }
    Ok(())
}

/// Of each library, functions by which it is known, the youngest of those that are called among them: cudarc panics where one is missing.
const FUNCTIONS: [&[&str]; 3] = [
    &["cuInit", "cuLaunchKernel", "cuStreamWriteValue64_v2", "cuEventElapsedTime_v2"],
    &["nvrtcVersion", "nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetProgramLog"],
    &["cublasLtCreate", "cublasLtMatmul", "cublasLtMatmulAlgoGetHeuristic"],
];

/// What the loader says of a library that it finds; `None` if it finds none under the names that cudarc tries.
fn why_not_loaded(name: &str) -> Option<String> {
    let stem = name.strip_prefix("lib")?.strip_suffix(".so")?;
    cudarc::get_lib_name_candidates(stem).into_iter().find_map(|candidate| {
        // SAFETY: as above; a library that cudarc could load is not asked for here.
        let error = unsafe { libloading::Library::new(candidate) }.err()?;
        let said = error.source()?.to_string();
        (!said.contains("No such file")).then_some(said)
    })
}
