//! GPUs, through NVIDIA's driver: queues are streams, and kernels are CUDA C++ that is compiled when a device is opened.
//!
//! The driver and its libraries are looked for at run time. Buffers lie in the device's memory. The host reaches them by uploads,
//! downloads and kernels that run on the host, and other devices directly. A failure of the device is kept, and what is asked of its
//! queues afterwards does nothing: [`Queue::has_reached`] says what failed.
//!
//! Kernels compute in f32, and read and write elements of the type that a run stores. Sums are added in orders that depend on sizes alone, so
//! equal work gives equal bits on one kind of device.
#![allow(unsafe_code, reason = "a device's memory, streams and libraries are the driver's")]

mod arguments;
mod attention;
mod clock;
mod copies;
mod edge;
mod gelu;
mod heads;
mod kernel_cache;
#[cfg(test)]
mod kernel_constants;
mod kernel_times;
mod libraries;
mod lookups;
mod memory;
mod nccl;
mod norm;
mod operations;
mod peers;
mod points;
mod products;
mod program;
mod programs;
mod queue;
mod said;
mod swiglu;
mod transfers;
mod words;
mod workspace;

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys::{CUdevice_attribute, CUresult};
use cudarc::driver::{CudaContext, CudaStream, DriverError};

use super::{Device, KernelTime, MemoryInUse, Queue};
use crate::element::ElementType;
use crate::error::ModelError;
pub use arguments::NUM_TERMS_MAX;
pub use attention::HEAD_SIZE_MAX;
use clock::Clock;
use kernel_times::KernelTimes;
pub use libraries::NoCuda;
use libraries::check_libraries;
pub use nccl::{Joining, NcclCommunicator, NcclId, NoNccl, nccl_version};
use peers::Peers;
pub use products::F32Products;
use products::Products;
use programs::Programs;
use queue::CudaQueue;
use said::said;
use workspace::Workspaces;

/// The oldest devices that kernels are for: older ones lack asynchronous copies to shared memory, and bf16 on tensor cores.
const CAPABILITY_MIN: (i32, i32) = (8, 0);

/// A GPU.
#[derive(Clone)]
pub struct Cuda {
    shared: Arc<Shared>,
}

/// What the queues of a device share.
struct Shared {
    peers: Arc<Peers>,
    context: Arc<CudaContext>,
    programs: Programs,
    products: Products,
    workspaces: Arc<Workspaces>,
    clock: Clock,
    kernel_times: KernelTimes,
    /// Of new memory that is set to zero, and nothing else.
    clearing: Arc<CudaStream>,
    /// Bytes of all live buffers.
    buffer_bytes: AtomicU64,
    has_failed: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Cuda {
    /// How many devices the driver has, at least one.
    ///
    /// # Errors
    /// When there is no driver, or it has no device, or refuses.
    pub fn num_devices() -> Result<usize, NoCuda> {
        check_libraries()?;
        match cudarc::driver::result::init() {
            Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => return Err(NoCuda::no_device()),
            answer => answer.map_err(|error| refused("cuInit", &error))?,
        }
        let num_devices = CudaContext::device_count().map_err(|error| refused("cuDeviceGetCount", &error))?;
        let num_devices = usize::try_from(num_devices).ok().filter(|&count| count > 0);
        num_devices.ok_or_else(NoCuda::no_device)
    }

    /// What the driver calls its devices, which are not opened for it.
    ///
    /// # Errors
    /// As [`Cuda::num_devices`].
    pub fn names() -> Result<Vec<String>, NoCuda> {
        let name = |ordinal: usize| {
            let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
            cudarc::driver::result::device::get(ordinal).and_then(cudarc::driver::result::device::get_name)
        };
        let names = (0..Self::num_devices()?).map(name).collect::<Result<_, _>>();
        names.map_err(|error| refused("cuDeviceGetName", &error))
    }

    /// Opens the device of this number, counted from 0, and compiles the kernels for it, or reads them from a folder below the user's home
    /// (or that `PIPEZERO_CACHE` names), where it keeps what it compiles. `of_f32` is about all products that its queues are asked for.
    ///
    /// # Errors
    /// When a library is missing, there is no such device, or the driver refuses.
    pub fn open(ordinal: usize, of_f32: F32Products) -> Result<Self, NoCuda> {
        let num_devices = Self::num_devices()?;
        if ordinal >= num_devices {
            return Err(NoCuda::Device { ordinal, num_devices });
        }
        let peers = Arc::new(Peers::open(ordinal..ordinal + 1)?);
        Self::on(&peers, &peers.contexts()[0], of_f32)
    }

    /// Opens all devices of the host: their queues use each other's buffers.
    ///
    /// # Errors
    /// As [`Cuda::open`], and when a device cannot reach the memory of another.
    pub fn open_all(of_f32: F32Products) -> Result<Vec<Self>, NoCuda> {
        let peers = Arc::new(Peers::open(0..Self::num_devices()?)?);
        peers.contexts().iter().map(|context| Self::on(&peers, context, of_f32)).collect()
    }

    fn on(peers: &Arc<Peers>, context: &Arc<CudaContext>, of_f32: F32Products) -> Result<Self, NoCuda> {
        let capability = context
            .compute_capability()
            .map_err(|error| refused("asking for the compute capability", &error))?;
        if capability < CAPABILITY_MIN {
            let (ordinal, [own, least]) = (
                context.ordinal(),
                [capability, CAPABILITY_MIN].map(|(major, minor)| format!("{major}.{minor}")),
            );
            let lack = format!("is of compute capability {own}, and kernels need {least} (A100) or newer");
            return Err(NoCuda::Unfit { ordinal, lack });
        }
        let stores = context.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
        if stores.map_err(|error| refused("cuDeviceGetAttribute", &error))? == 0 {
            let lack =
                "has no streams that store words of 64 bits (CAN_USE_64_BIT_STREAM_MEM_OPS)".to_owned();
            return Err(NoCuda::Unfit { ordinal: context.ordinal(), lack });
        }
        let programs = Programs::new(context, capability)?;
        context.bind_to_thread().map_err(|error| refused("cuCtxSetCurrent", &error))?;
        let products = Products::new(context, of_f32).map_err(|error| refused("cublasLtCreate", &error))?;
        let workspaces = Workspaces::new(context).map_err(|error| refused("cuMemAlloc", &error))?;
        let clearing = context.new_stream().map_err(|error| refused("cuStreamCreate", &error))?;
        let clock = Clock::start(context).map_err(|error| refused("starting the clock", &error))?;
        Ok(Self {
            shared: Arc::new(Shared {
                peers: Arc::clone(peers),
                context: Arc::clone(context),
                programs,
                products,
                workspaces: Arc::new(workspaces),
                clock,
                kernel_times: KernelTimes::default(),
                clearing,
                buffer_bytes: AtomicU64::new(0),
                has_failed: AtomicBool::new(false),
                failure: Mutex::default(),
            }),
        })
    }

    /// The time on the clock by which the queues of all devices of this process say when they passed marks, nanoseconds.
    pub fn now_ns() -> u64 {
        Clock::now_ns()
    }

    /// How many multiprocessors it has.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn num_multiprocessors(&self) -> Result<usize, NoCuda> {
        let number = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
        let number = self.shared.context.attribute(number);
        number
            .map(|number| usize::try_from(number).unwrap_or(0))
            .map_err(|error| refused("cuDeviceGetAttribute", &error))
    }

    /// What tells it from all other devices, of whatever host.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn uuid(&self) -> Result<[u8; 16], NoCuda> {
        let uuid = self.shared.context.uuid().map_err(|error| refused("cuDeviceGetUuid", &error))?;
        Ok(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
    }

    /// What the driver calls it.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn name(&self) -> Result<String, NoCuda> {
        self.shared.context.name().map_err(|error| refused("cuDeviceGetName", &error))
    }
}

/// The version of CUDA that the driver is of, `13.0`; `None` where there is no driver.
pub fn cuda_version() -> Option<String> {
    check_libraries().ok()?;
    let mut version = 0;
    // SAFETY: the library can be loaded, and the number is written before the call returns.
    unsafe { cudarc::driver::sys::cuDriverGetVersion(&raw mut version).result().ok()? };
    Some(format!("{}.{}", version / 1000, version % 1000 / 10))
}

impl Shared {
    /// What a call's error means.
    fn reason(&self, call: &str, error: &impl Display) -> String {
        format!("GPU {}, {call}: {}", self.context.ordinal(), said(error))
    }

    fn refuses(&self, call: &str, error: &impl Display) -> ModelError {
        ModelError::Device { reason: self.reason(call, error) }
    }

    /// Keeps the first failure.
    fn fail(&self, call: &str, error: &impl Display) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| self.reason(call, error));
        self.has_failed.store(true, Ordering::Release);
    }

    /// Why there is no buffer of so many bytes.
    fn not_allocated(&self, num_bytes: usize, error: DriverError) -> ModelError {
        let gpu = self.context.ordinal();
        let reason = match (error, self.context.mem_get_info()) {
            (DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY), Ok((free, total))) => format!(
                "GPU {gpu} is out of memory: {num_bytes} bytes more are needed, and of its {total} {free} are free. What the driver and its \
                 libraries use is in no plan: free more of it, or make the run smaller, as `plan` with a lower `memory` proposes"
            ),
            _ => self.reason("cuMemAlloc", &error),
        };
        ModelError::Device { reason }
    }

    /// # Errors
    /// [`ModelError::Device`] once the device has failed.
    fn check(&self) -> Result<(), ModelError> {
        if !self.has_failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        Err(ModelError::Device { reason: failure.clone().unwrap_or_default() })
    }
}

impl Device for Cuda {
    fn queue(&self) -> Result<Arc<dyn Queue>, ModelError> {
        self.shared.check()?;
        Ok(Arc::new(CudaQueue::new(Arc::clone(&self.shared))?))
    }

    fn computes_in(&self, element: ElementType) -> bool {
        element != ElementType::U32
    }

    fn memory(&self) -> Result<Option<MemoryInUse>, ModelError> {
        let context = &self.shared.context;
        match context.bind_to_thread().and_then(|()| context.mem_get_info()) {
            Ok((free, total)) => Ok(Some(MemoryInUse {
                total_bytes: total as u64,
                free_bytes: free as u64,
                buffer_bytes: self.shared.buffer_bytes.load(Ordering::Relaxed),
            })),
            Err(error) => Err(self.shared.refuses("cuMemGetInfo", &error)),
        }
    }

    fn start_kernel_times(&self) {
        self.shared.kernel_times.start();
    }

    fn stop_kernel_times(&self) -> Result<Option<Vec<KernelTime>>, ModelError> {
        self.shared.check()?;
        let context = &self.shared.context;
        let times = context.bind_to_thread().and_then(|()| self.shared.kernel_times.stop());
        times.map(Some).map_err(|error| self.shared.refuses("cuEventElapsedTime", &error))
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("ordinal", &self.context.ordinal()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("ordinal", &self.shared.context.ordinal()).finish_non_exhaustive()
    }
}

fn refused(call: &'static str, error: &impl Display) -> NoCuda {
    NoCuda::Refused { call, reason: said(error) }
}
