//! The layer graph: a model's layers with their sizes, and the activations between them as weighted edges.
//!
//! Today every graph is a chain, which the constructor checks; the edges are explicit all the same, because
//! their weights are what a cut between two stages sends.

mod error;
#[cfg(test)]
mod tests;

use std::ops::Range;

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};

pub use self::error::GraphError;
use crate::role::{LayerRole, Tying};

/// One layer and its sizes for one micro-batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerNode {
    /// The layer's name, for reports: `h.3.attn`.
    pub name: String,
    /// What it is to the partitioner.
    pub role: LayerRole,
    /// Whether its parameters are shared.
    pub tying: Tying,
    /// Number of parameters, padding not counted.
    pub num_parameters: u64,
    /// Whether none of its parameters is trained; both uses of a tied weight are alike, and so are the slices of a table.
    pub is_frozen: bool,
    /// Those that are not trained while others are, by their place in the order of declaration, ascending. The balanced split weighs the layer as trained.
    pub frozen_parameters: Vec<usize>,
    /// Floating-point operations of one forward (a multiply-add counts two); the backward takes twice as many, of a frozen layer as many.
    pub forward_flops: u64,
    /// Elements kept from forward to backward, the layer's input included; slices count them once.
    pub saved_elements: u64,
    /// Whether it is a slice of a table that is cut, next to the others.
    pub is_slice: bool,
    /// Whether it is an input encoder, which takes inputs besides the tokens.
    pub is_input_encoder: bool,
}

impl LayerNode {
    /// Whether it is a unit of its own.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_slice || self.is_input_encoder || self.tying != Tying::Untied
    }
}

/// A chain of layers from tokens to loss: embeddings, then blocks in ascending order, then heads.
///
/// The order is checked once, here; a layer's position in the chain is its number from then on.
#[derive(Clone, Debug)]
pub struct LayerGraph {
    graph: DiGraph<LayerNode, u64>,
    order: Vec<NodeIndex>,
    /// The layers of every block; as many entries as blocks.
    blocks: Vec<Range<usize>>,
}

impl LayerGraph {
    /// The chain of `layers` in this order; `cut_elements[i]` is the activation between layers `i` and `i + 1`, in
    /// elements for one micro-batch.
    ///
    /// # Errors
    /// As [`LayerGraph::new`]; [`GraphError::WrongNumberOfCuts`] unless there is one cut fewer than layers.
    pub fn chain(layers: Vec<LayerNode>, cut_elements: &[u64]) -> Result<Self, GraphError> {
        if cut_elements.len() + 1 != layers.len() && !layers.is_empty() {
            let (num_cuts, num_layers) = (cut_elements.len(), layers.len());
            return Err(GraphError::WrongNumberOfCuts { num_cuts, num_layers });
        }
        let mut graph = DiGraph::with_capacity(layers.len(), cut_elements.len());
        let nodes: Vec<_> = layers.into_iter().map(|layer| graph.add_node(layer)).collect();
        for (ends, &elements) in nodes.windows(2).zip(cut_elements) {
            graph.add_edge(ends[0], ends[1], elements);
        }
        Self::new(graph)
    }

    /// A graph whose edges lead from each layer to the one that reads its output; an edge weighs that activation's
    /// elements for one micro-batch.
    ///
    /// # Errors
    /// A graph that is not one chain, or whose roles or tied weights are out of order: see [`GraphError`].
    pub fn new(graph: DiGraph<LayerNode, u64>) -> Result<Self, GraphError> {
        let order = chain_order(&graph)?;
        let layers: Vec<&LayerNode> = order.iter().map(|&node| &graph[node]).collect();
        check_roles(&layers)?;
        check_tying(&layers)?;
        let blocks = block_ranges(&layers);
        Ok(Self { graph, order, blocks })
    }

    /// Number of layers, at least one.
    pub fn num_layers(&self) -> usize {
        self.order.len()
    }

    /// Number of transformer blocks, at least one.
    pub fn num_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The layer at this position of the chain.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn layer(&self, position: usize) -> &LayerNode {
        &self.graph[self.order[position]]
    }

    /// The layers from the first to the last.
    pub fn layers(&self) -> impl ExactSizeIterator<Item = &LayerNode> + Clone {
        self.order.iter().map(|&node| &self.graph[node])
    }

    /// The layers of a block.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn block_layers(&self, block: usize) -> Range<usize> {
        self.blocks[block].clone()
    }

    /// The layers of a stage that has these blocks: with the first block comes what is before it, with the last block
    /// what is behind it.
    pub(crate) fn layers_of_blocks(&self, blocks: Range<usize>) -> Range<usize> {
        let start = if blocks.start == 0 { 0 } else { self.blocks[blocks.start].start };
        let is_last = blocks.end == self.blocks.len();
        start..if is_last { self.num_layers() } else { self.blocks[blocks.end].start }
    }

    /// Elements of the activation that this layer sends to the next one for a micro-batch; 0 for the last layer.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn cut_elements(&self, position: usize) -> u64 {
        self.graph.edges(self.order[position]).map(|edge| *edge.weight()).sum()
    }

    /// Parameters of these layers, each layer's counted; a tied weight whose two uses are both among them counts twice.
    ///
    /// # Panics
    /// If there are no such layers.
    pub fn num_parameters(&self, layers: Range<usize>) -> u64 {
        layers.map(|position| self.layer(position).num_parameters).fold(0, u64::saturating_add)
    }
}

/// The nodes from the only source to the only sink.
fn chain_order(graph: &DiGraph<LayerNode, u64>) -> Result<Vec<NodeIndex>, GraphError> {
    for node in graph.node_indices() {
        let num_inputs = graph.edges_directed(node, Direction::Incoming).count();
        let num_outputs = graph.edges_directed(node, Direction::Outgoing).count();
        if num_inputs > 1 || num_outputs > 1 {
            let layer = graph[node].name.clone();
            return Err(GraphError::Branches { layer, num_inputs, num_outputs });
        }
    }
    let first = graph.externals(Direction::Incoming).next();
    let next = |&node: &NodeIndex| graph.neighbors(node).next();
    let order: Vec<_> = std::iter::successors(first, next).collect();
    match (graph.node_count(), order.len()) {
        (0, _) => Err(GraphError::Empty),
        (num_layers, num_reached) if num_reached == num_layers => Ok(order),
        (num_layers, num_reached) => Err(GraphError::NotOneChain { num_reached, num_layers }),
    }
}

/// Embeddings, blocks 0, 1, 2, ... without a gap, heads.
fn check_roles(layers: &[&LayerNode]) -> Result<(), GraphError> {
    if !layers.iter().any(|layer| matches!(layer.role, LayerRole::Block { .. })) {
        return Err(GraphError::NoBlocks { num_layers: layers.len() });
    }
    let mut previous = None;
    for layer in layers {
        if !may_follow(previous, layer.role) {
            return Err(GraphError::RoleOrder { layer: layer.name.clone(), role: layer.role, previous });
        }
        previous = Some(layer.role);
    }
    Ok(())
}

/// Whether a layer of this role may come right after one of the other; `None` is the beginning of the chain.
fn may_follow(previous: Option<LayerRole>, role: LayerRole) -> bool {
    match (previous, role) {
        (None | Some(LayerRole::Embedding), LayerRole::Embedding) => true,
        (None | Some(LayerRole::Embedding), LayerRole::Block { index }) => index == 0,
        (Some(LayerRole::Block { index: last }), LayerRole::Block { index }) => {
            index == last || index == last + 1
        }
        (Some(LayerRole::Block { .. } | LayerRole::Head), LayerRole::Head) => true,
        (None | Some(LayerRole::Embedding), LayerRole::Head)
        | (Some(LayerRole::Block { .. }), LayerRole::Embedding)
        | (Some(LayerRole::Head), LayerRole::Embedding | LayerRole::Block { .. }) => false,
    }
}

/// No tied weight, or exactly one, each slice of it used by one embedding and one head with as many parameters.
fn check_tying(layers: &[&LayerNode]) -> Result<(), GraphError> {
    let misplaced = layers.iter().find(|layer| match layer.tying {
        Tying::Untied => false,
        Tying::Embedding => layer.role != LayerRole::Embedding,
        Tying::Head => layer.role != LayerRole::Head,
    });
    if let Some(layer) = misplaced {
        return Err(GraphError::TiedRole { layer: layer.name.clone(), role: layer.role });
    }
    let uses = |tying| layers.iter().filter(move |layer| layer.tying == tying).collect::<Vec<_>>();
    let (embeddings, heads) = (uses(Tying::Embedding), uses(Tying::Head));
    if embeddings.len() != heads.len() || embeddings.len() > 1 && !layers_are_slices(&embeddings, &heads) {
        return Err(GraphError::TiedUses { num_embeddings: embeddings.len(), num_heads: heads.len() });
    }
    let differing = embeddings
        .iter()
        .zip(&heads)
        .find(|(embedding, head)| embedding.num_parameters != head.num_parameters);
    match differing {
        None => Ok(()),
        Some((embedding, head)) => Err(GraphError::TiedSizes {
            embedding_parameters: embedding.num_parameters,
            head_parameters: head.num_parameters,
        }),
    }
}

fn layers_are_slices(embeddings: &[&&LayerNode], heads: &[&&LayerNode]) -> bool {
    embeddings.iter().chain(heads).all(|layer| layer.is_slice)
}

/// The layers of each block; the roles are known to be in order.
fn block_ranges(layers: &[&LayerNode]) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for (position, layer) in layers.iter().enumerate() {
        let LayerRole::Block { index } = layer.role else { continue };
        match blocks.get_mut(index) {
            Some(block) => block.end = position + 1,
            None => blocks.push(position..position + 1),
        }
    }
    blocks
}
