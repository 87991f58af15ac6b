//! Products of matrices, by cuBLASLt.
//!
//! Its matrices are stored column by column: a matrix `[R, C]` of ours, stored row by row, is its `C x R`. So `y = x Wᵀ` is asked for as `yᵀ = W xᵀ`.
//!
//! Factors in f32 are multiplied as they are, or rounded to TF32 first where a device was opened so ([`F32Products`]).
//!
//! One algorithm computes a product of given sizes, types, epilogue and alignment on every rank, so that equal work gives equal bits: the first that the library
//! proposes among those that add in one pass, without splitting the inner dimension between blocks, and take no memory but a queue's
//! [`Workspace`].

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::from_ref;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::{result, sys};
use cudarc::driver::CudaContext;
use cudarc::driver::sys::CUstream;

use super::arguments::WIDE_BYTES;
use super::workspace::{WORKSPACE_BYTES, Workspace};
use crate::element::ElementType;
use crate::kernels::linear::LinearShape;

/// A product as the library is asked for it: `out: rows x columns = op(left) op(right)`, column by column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Product {
    rows: usize,
    columns: usize,
    inner: usize,
    left_is_transposed: bool,
    right_is_transposed: bool,
    /// Elements from one stored column of the right factor to the next.
    right_leading: usize,
    epilogue: Epilogue,
    /// Of both factors.
    factors: ElementType,
    /// Of the output, of what the product is added to, and of the bias.
    out: ElementType,
}

impl fmt::Display for Product {
    /// The matrix that is written, as the library has it, and the length of the sums: `rows x columns x inner`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, columns, inner, factors, out, epilogue, .. } = self;
        write!(f, "{factors} to {out} {rows} x {columns} x {inner}")?;
        match epilogue {
            Epilogue::Nothing => Ok(()),
            Epilogue::Bias => write!(f, ", bias"),
            Epilogue::Gelu => write!(f, ", GELU"),
            Epilogue::GeluGradient => write!(f, ", GELU's gradient"),
        }
    }
}

/// Proposals that the library is asked for.
const NUM_PROPOSALS: usize = 8;

/// The workspace that the library is offered: offered [`WORKSPACE_BYTES`], it proposes algorithms that need none. Of its proposals the first is
/// taken that needs no more than those.
const OFFERED_WORKSPACE_BYTES: usize = 32 << 20;

/// What a device does with the factors of products in f32. Sums are f32 in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum F32Products {
    /// It multiplies them as they are.
    Whole,
    /// It rounds them to TF32, of 10 bits behind the point, which tensor cores multiply.
    Tf32,
}

impl F32Products {
    fn compute_type(self, factors: ElementType) -> sys::cublasComputeType_t {
        match (self, factors) {
            (Self::Tf32, ElementType::F32) => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        }
    }
}

/// What is done with a product before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Epilogue {
    Nothing,
    /// Adds a bias to every column.
    Bias,
    /// Adds a bias, writes the sum to [`Operands::gelu_input`], and stores GELU of it.
    Gelu,
    /// Multiplies by GELU's derivative at [`Operands::gelu_input`].
    GeluGradient,
}

impl Epilogue {
    fn of_library(self) -> sys::cublasLtEpilogue_t {
        match self {
            Self::Nothing => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
            Self::Bias => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            Self::Gelu => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
            Self::GeluGradient => sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DGELU,
        }
    }
}

impl Product {
    /// `yᵀ = W xᵀ`
    pub(super) fn forward(shape: LinearShape, epilogue: Epilogue, [factors, out]: [ElementType; 2]) -> Self {
        let LinearShape { num_rows, num_inputs, num_outputs } = shape;
        Self {
            rows: num_outputs,
            columns: num_rows,
            inner: num_inputs,
            left_is_transposed: true,
            right_is_transposed: false,
            right_leading: num_inputs,
            epilogue,
            factors,
            out,
        }
    }

    /// `dxᵀ = Wᵀ dyᵀ`, rows of `dy` lying `stride` elements apart.
    pub(super) fn backward_input(
        shape: LinearShape,
        stride: usize,
        epilogue: Epilogue,
        [factors, out]: [ElementType; 2],
    ) -> Self {
        let LinearShape { num_rows, num_inputs, num_outputs } = shape;
        Self {
            rows: num_inputs,
            columns: num_rows,
            inner: num_outputs,
            left_is_transposed: false,
            right_is_transposed: false,
            right_leading: stride,
            epilogue,
            factors,
            out,
        }
    }

    /// `dWᵀ = xᵀ dy`, rows of `dy` lying `stride` elements apart.
    pub(super) fn backward_weight(
        shape: LinearShape,
        stride: usize,
        [factors, out]: [ElementType; 2],
    ) -> Self {
        let LinearShape { num_rows, num_inputs, num_outputs } = shape;
        Self {
            rows: num_inputs,
            columns: num_outputs,
            inner: num_rows,
            left_is_transposed: false,
            right_is_transposed: true,
            right_leading: stride,
            epilogue: Epilogue::Nothing,
            factors,
            out,
        }
    }

    /// Elements from one stored column of the left factor to the next.
    fn left_leading(self) -> usize {
        if self.left_is_transposed { self.inner } else { self.rows }
    }

    /// Whether the library may be asked for a product with GELU or its gradient: in f32 its own approximation of tanh would be the largest
    /// error of a layer, and rows of GELU's input must have a multiple of 8 elements (cuBLAS, `CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD`).
    pub(super) fn may_have_gelu(self, operands: Operands) -> bool {
        let is_narrow = self.out != ElementType::F32;
        is_narrow && self.rows.is_multiple_of(8) && self.alignment(operands) == WIDE_BYTES as u64
    }

    /// Whether the library may write to a workspace beside the matrices: where without one it has slow algorithms alone. With one, its first
    /// proposals for other products are as fast or slower (`docs/results.md`).
    pub(super) fn takes_workspace(self) -> bool {
        self.epilogue == Epilogue::GeluGradient
    }

    /// Bytes of which the addresses of all operands are multiples: the fastest algorithms read 16 at once. Where operands begin is the
    /// same on every grid, since [`layout`](crate::layout) says it.
    fn alignment(self, operands: Operands) -> u64 {
        let Operands { left, right, onto, bias, gelu_input, out } = operands;
        let others = [onto, bias, gelu_input].into_iter().flatten();
        let addresses = others.fold(left | right | out, |all, address| all | address);
        if addresses.is_multiple_of(WIDE_BYTES as u64) {
            WIDE_BYTES as u64
        } else {
            self.factors.num_bytes() as u64
        }
    }
}

/// Where the operands of a product lie in the device's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands {
    pub(super) left: u64,
    pub(super) right: u64,
    /// What is added to the product: the output itself, or another matrix like it.
    pub(super) onto: Option<u64>,
    /// `[rows]`, added to every column.
    pub(super) bias: Option<u64>,
    /// GELU's input, laid out like the output: [`Epilogue::Gelu`] writes it, [`Epilogue::GeluGradient`] reads it.
    pub(super) gelu_input: Option<u64>,
    pub(super) out: u64,
}

/// The library, and the algorithms that it has chosen.
pub(super) struct Products {
    handle: Handle,
    of_f32: F32Products,
    /// By product and alignment; `None` where the library proposes none.
    algorithms: Mutex<HashMap<(Product, u64), Option<sys::cublasLtMatmulAlgo_t>>>,
}

impl std::fmt::Debug for Products {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Products").finish_non_exhaustive()
    }
}

impl Products {
    /// Of a context, which is bound to this thread.
    pub(super) fn new(context: &Arc<CudaContext>, of_f32: F32Products) -> Result<Self, result::CublasError> {
        let handle = Handle { handle: result::create_handle()?, context: Arc::clone(context) };
        Ok(Self { handle, of_f32, algorithms: Mutex::default() })
    }

    /// Asks for a product, added up in f32, with the stream's workspace where it [takes one](Product::takes_workspace). Returns whether the
    /// library computes it.
    pub(super) fn multiply(
        &self,
        product: Product,
        operands: Operands,
        workspace: Option<&Workspace>,
        stream: CUstream,
    ) -> Result<bool, result::CublasError> {
        let asked = Asked::new(product, operands, self.of_f32.compute_type(product.factors))?;
        let Some(algorithm) = self.algorithm(product, product.alignment(operands), &asked)? else {
            return Ok(false);
        };
        let (alpha, beta) = (1.0_f32, if operands.onto.is_some() { 1.0_f32 } else { 0.0 });
        let pointer = |address: u64| address as *const c_void;
        let (workspace, workspace_bytes) =
            workspace.map_or((0, 0), |workspace| (workspace.address(), WORKSPACE_BYTES));
        // SAFETY: the caller's views have these matrices and outlive the product on this stream, whose workspace this is; layouts and
        // description are alive, and the factors are read before the call returns.
        unsafe {
            result::matmul(
                self.handle.handle,
                asked.description.0,
                from_ref(&alpha).cast(),
                from_ref(&beta).cast(),
                pointer(operands.left),
                asked.left.0,
                pointer(operands.right),
                asked.right.0,
                pointer(operands.onto.unwrap_or(operands.out)),
                asked.out.0,
                operands.out as *mut c_void,
                asked.out.0,
                from_ref(&algorithm),
                workspace as *mut c_void,
                workspace_bytes,
                stream.cast(),
            )?;
        }
        Ok(true)
    }

    fn algorithm(
        &self,
        product: Product,
        alignment: u64,
        asked: &Asked,
    ) -> Result<Option<sys::cublasLtMatmulAlgo_t>, result::CublasError> {
        let mut known = self.algorithms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(algorithm) = known.get(&(product, alignment)) {
            return Ok(*algorithm);
        }
        let mut proposals = self.proposals(asked, &Preference::new(alignment, 0)?)?;
        if product.takes_workspace() {
            let with_workspace =
                self.proposals(asked, &Preference::new(alignment, OFFERED_WORKSPACE_BYTES)?)?;
            proposals.splice(0..0, with_workspace);
        }
        let room_bytes = if product.takes_workspace() { WORKSPACE_BYTES } else { 0 };
        let algorithm = proposals.iter().find(|proposal| proposal.workspaceSize <= room_bytes);
        Ok(*known.entry((product, alignment)).or_insert(algorithm.map(|proposal| proposal.algo)))
    }

    /// What the library proposes, the fastest first by its own estimate.
    fn proposals(
        &self,
        asked: &Asked,
        preference: &Preference,
    ) -> Result<Vec<sys::cublasLtMatmulHeuristicResult_t>, result::CublasError> {
        let mut proposals =
            [const { MaybeUninit::<sys::cublasLtMatmulHeuristicResult_t>::uninit() }; NUM_PROPOSALS];
        let mut num_proposals = 0;
        // SAFETY: everything that is passed is alive, and there is room for as many proposals as are asked for.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle.handle,
                asked.description.0,
                asked.left.0,
                asked.right.0,
                asked.out.0,
                asked.out.0,
                preference.0,
                NUM_PROPOSALS as i32,
                proposals.as_mut_ptr().cast(),
                &raw mut num_proposals,
            )
        };
        match status.result() {
            Err(result::CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED)) => Ok(Vec::new()),
            Err(error) => Err(error),
            Ok(()) => {
                let made = proposals.into_iter().take(usize::try_from(num_proposals).unwrap_or(0));
                // SAFETY: the library has written as many as it says.
                let made = made.map(|made| unsafe { made.assume_init() });
                Ok(made.filter(|made| made.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS).collect())
            }
        }
    }
}

/// A product's description for the library.
struct Asked {
    description: Description,
    left: Layout,
    right: Layout,
    out: Layout,
}

impl Asked {
    fn new(
        product: Product,
        operands: Operands,
        computed: sys::cublasComputeType_t,
    ) -> Result<Self, result::CublasError> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let Product { rows, columns, inner, left_is_transposed, right_is_transposed, factors, out, .. } =
            product;
        let description = Description(result::create_matmul_desc(computed, sys::cudaDataType_t::CUDA_R_32F)?);
        // `cublasOperation_t`: CUBLAS_OP_N is 0, CUBLAS_OP_T is 1.
        let operation = |is_transposed: bool| i32::from(is_transposed);
        description.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &operation(left_is_transposed))?;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &operation(right_is_transposed))?;
        description.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &product.epilogue.of_library())?;
        if let Some(bias) = operands.bias {
            description.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        }
        if let Some(gelu_input) = operands.gelu_input {
            description.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &gelu_input)?;
            description.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &(rows as i64))?;
        }
        let stored = |[rows, columns]: [usize; 2], is_transposed: bool, leading: usize| match is_transposed {
            true => Layout::new(factors, columns, rows, leading),
            false => Layout::new(factors, rows, columns, leading),
        };
        Ok(Self {
            description,
            left: stored([rows, inner], left_is_transposed, product.left_leading())?,
            right: stored([inner, columns], right_is_transposed, product.right_leading)?,
            out: Layout::new(out, rows, columns, rows)?,
        })
    }
}

struct Handle {
    handle: sys::cublasLtHandle_t,
    context: Arc<CudaContext>,
}

// SAFETY: the library's handle may be used by several threads at once (cuBLAS documentation, section "Thread safety").
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // What the library has allocated on the device is freed in the context that is bound.
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: it was created once and is destroyed once.
            let _ = unsafe { result::destroy_handle(self.handle) };
        }
    }
}

struct Description(sys::cublasLtMatmulDesc_t);

impl Description {
    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulDescAttributes_t,
        value: &T,
    ) -> Result<(), result::CublasError> {
        // SAFETY: the library copies the value, whose size is given.
        unsafe {
            result::set_matmul_desc_attribute(self.0, attribute, from_ref(value).cast(), size_of::<T>())
        }
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: it was created once and is destroyed once.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

struct Layout(sys::cublasLtMatrixLayout_t);

impl Layout {
    /// `rows x columns`, column by column, which lie `leading` elements apart.
    fn new(
        element: ElementType,
        rows: usize,
        columns: usize,
        leading: usize,
    ) -> Result<Self, result::CublasError> {
        let element = match element {
            ElementType::F32 => sys::cudaDataType_t::CUDA_R_32F,
            ElementType::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
            ElementType::F16 => sys::cudaDataType_t::CUDA_R_16F,
            ElementType::U32 => panic!("products are of floats"),
        };
        let leading = i64::try_from(leading).expect("a matrix that fits into memory");
        result::create_matrix_layout(element, rows as u64, columns as u64, leading).map(Self)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: it was created once and is destroyed once.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    /// Algorithms with a workspace of so many bytes at most, that add in one pass, and take matrices whose addresses are such multiples.
    fn new(alignment: u64, workspace_bytes: usize) -> Result<Self, result::CublasError> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let preference = Self(result::create_matmul_pref()?);
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes)?;
        let no_second_pass = sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_NONE as u32;
        preference.set(Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_second_pass)?;
        for operand in [
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            preference.set(operand, &(alignment as u32))?;
        }
        Ok(preference)
    }

    fn set<T>(
        &self,
        attribute: sys::cublasLtMatmulPreferenceAttributes_t,
        value: &T,
    ) -> Result<(), result::CublasError> {
        // SAFETY: the library copies the value, whose size is given.
        unsafe {
            result::set_matmul_pref_attribute(self.0, attribute, from_ref(value).cast(), size_of::<T>())
        }
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: it was created once and is destroyed once.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}
