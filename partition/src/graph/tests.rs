//! The chain is taken as it is given; everything that is not one is refused by name.

use super::*;
use crate::testing::{chain, gpt, gpt_layers, layer};

fn refused(layers: Vec<LayerNode>) -> GraphError {
    let cuts = vec![1; layers.len().saturating_sub(1)];
    LayerGraph::chain(layers, &cuts).expect_err("the layers are out of order")
}

#[test]
fn a_chain_keeps_its_layers_cuts_and_blocks() {
    let graph = gpt(3, 2);
    let names: Vec<_> = graph.layers().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["wte", "h.0.0", "h.0.1", "h.1.0", "h.1.1", "h.2.0", "h.2.1", "ln_f", "lm_head"]);
    assert_eq!((graph.num_layers(), graph.num_blocks()), (9, 3));
    assert_eq!(graph.block_layers(1), 3..5);
    assert_eq!(
        (0..9).map(|position| graph.cut_elements(position)).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7, 8, 0]
    );
    assert_eq!(graph.num_parameters(3..5), 200);
}

/// The order comes from the edges, not from the order in which nodes were added.
#[test]
fn a_graph_that_was_built_backwards_is_the_same_chain() {
    let mut graph = DiGraph::new();
    let nodes: Vec<_> = gpt_layers(2, 1).into_iter().rev().map(|layer| graph.add_node(layer)).collect();
    for (ends, elements) in nodes.windows(2).zip([7, 8, 9, 10]) {
        graph.add_edge(ends[1], ends[0], elements);
    }
    let graph = LayerGraph::new(graph).expect("one chain");
    assert!(graph.layers().eq(gpt(2, 1).layers()));
    assert_eq!((0..5).map(|position| graph.cut_elements(position)).collect::<Vec<_>>(), [10, 9, 8, 7, 0]);
}

#[test]
fn embeddings_and_heads_are_not_required() {
    let graph = chain(vec![layer("h.0", LayerRole::Block { index: 0 })]);
    assert_eq!((graph.num_layers(), graph.num_blocks(), graph.block_layers(0)), (1, 1, 0..1));
}

#[test]
fn the_wrong_number_of_cuts_is_refused() {
    for num_cuts in [0, 3, 5] {
        let error =
            LayerGraph::chain(gpt_layers(2, 1), &vec![1; num_cuts]).expect_err("five layers have four cuts");
        assert_eq!(error, GraphError::WrongNumberOfCuts { num_cuts, num_layers: 5 });
    }
    assert_eq!(LayerGraph::chain(vec![], &[]).expect_err("no layer"), GraphError::Empty);
}

/// Every edge that can be added to a valid chain or removed from it makes it none.
#[test]
fn graphs_that_are_not_one_chain_are_refused() {
    let valid = [(0, 1), (1, 2), (2, 3), (3, 4)];
    let build = |edges: &[(usize, usize)]| {
        let mut graph = DiGraph::new();
        let nodes: Vec<_> = gpt_layers(2, 1).into_iter().map(|layer| graph.add_node(layer)).collect();
        for &(from, to) in edges {
            graph.add_edge(nodes[from], nodes[to], 1);
        }
        LayerGraph::new(graph)
    };
    assert!(build(&valid).is_ok());
    for from in 0..5 {
        for to in 0..5 {
            let mut edges = valid.to_vec();
            edges.push((from, to));
            match build(&edges).expect_err("a fifth edge is one too many") {
                // Only the edge from the last layer to the first gives no layer a second input or output.
                GraphError::NotOneChain { num_reached: 0, num_layers: 5 } => assert_eq!((from, to), (4, 0)),
                GraphError::Branches { num_inputs, num_outputs, .. } => {
                    assert!(num_inputs == 2 || num_outputs == 2)
                }
                other => panic!("({from}, {to}): {other}"),
            }
        }
    }
    for removed in 0..4 {
        let mut edges = valid.to_vec();
        edges.remove(removed);
        let error = build(&edges).expect_err("the chain is broken");
        assert_eq!(error, GraphError::NotOneChain { num_reached: removed + 1, num_layers: 5 });
    }
}

/// Every order of roles for up to four layers, against the rule written as a regular language.
#[test]
fn roles_are_accepted_exactly_when_they_are_in_order() {
    let roles = [
        LayerRole::Embedding,
        LayerRole::Block { index: 0 },
        LayerRole::Block { index: 1 },
        LayerRole::Block { index: 2 },
        LayerRole::Head,
    ];
    let mut lists: Vec<Vec<LayerRole>> = vec![vec![]];
    for length in 1..=4 {
        lists = lists
            .iter()
            .flat_map(|list| roles.iter().map(|&role| [list.as_slice(), &[role]].concat()))
            .collect();
        assert_eq!(lists.len(), 5_usize.pow(length));
        for list in &lists {
            let layers: Vec<_> = list.iter().map(|&role| layer("x", role)).collect();
            let accepted = LayerGraph::chain(layers, &vec![1; list.len() - 1]).is_ok();
            assert_eq!(accepted, in_order(list), "{list:?}");
        }
    }
}

/// Stripped of embeddings in front and heads behind, the indices are sorted and are exactly 0, 1, ..., n - 1.
fn in_order(roles: &[LayerRole]) -> bool {
    let front = roles.iter().take_while(|&&role| role == LayerRole::Embedding).count();
    let back = roles.iter().rev().take_while(|&&role| role == LayerRole::Head).count();
    let Some(middle) = roles.get(front..roles.len() - back).filter(|middle| !middle.is_empty()) else {
        return false;
    };
    let indices: Option<Vec<usize>> = middle
        .iter()
        .map(|role| match role {
            LayerRole::Block { index } => Some(*index),
            LayerRole::Embedding | LayerRole::Head => None,
        })
        .collect();
    indices.is_some_and(|mut indices| {
        let sorted = indices.is_sorted();
        indices.dedup();
        sorted && indices.iter().copied().eq(0..indices.len())
    })
}

#[test]
fn tied_weights_are_one_embedding_and_one_head_of_one_size() {
    let tied = |change: &dyn Fn(&mut Vec<LayerNode>)| {
        let mut layers = gpt_layers(2, 1);
        layers[0].tying = Tying::Embedding;
        layers[4].tying = Tying::Head;
        change(&mut layers);
        layers
    };
    assert!(LayerGraph::chain(tied(&|_| ()), &[1; 4]).is_ok());
    assert_eq!(
        refused(tied(&|layers| layers[4].num_parameters = 99)),
        GraphError::TiedSizes { embedding_parameters: 100, head_parameters: 99 }
    );
    assert_eq!(
        refused(tied(&|layers| layers[4].tying = Tying::Untied)),
        GraphError::TiedUses { num_embeddings: 1, num_heads: 0 }
    );
    assert_eq!(
        refused(tied(&|layers| layers[3].tying = Tying::Head)),
        GraphError::TiedUses { num_embeddings: 1, num_heads: 2 }
    );
    assert_eq!(
        refused(tied(&|layers| layers[1].tying = Tying::Embedding)),
        GraphError::TiedRole { layer: "h.0.0".to_owned(), role: LayerRole::Block { index: 0 } }
    );
    assert_eq!(
        refused(tied(&|layers| layers[0].tying = Tying::Head)),
        GraphError::TiedRole { layer: "wte".to_owned(), role: LayerRole::Embedding }
    );
}

#[test]
fn messages_name_value_rule_and_repair() {
    let (layer, role) = ("h.2".to_owned(), LayerRole::Block { index: 2 });
    let previous = Some(LayerRole::Block { index: 0 });
    let messages = [
        (GraphError::Empty, "the model has no layer; give it at least one transformer block"),
        (
            GraphError::WrongNumberOfCuts { num_cuts: 3, num_layers: 5 },
            "3 cuts were given for 5 layers; a chain has one cut between any two neighbours, 4 here",
        ),
        (
            GraphError::Branches { layer: "h.2".to_owned(), num_inputs: 2, num_outputs: 1 },
            "layer `h.2` has 2 inputs and 1 outputs; a model is a chain, so make the branch and what joins it one layer",
        ),
        (
            GraphError::NotOneChain { num_reached: 2, num_layers: 5 },
            "2 of 5 layers can be reached from the first one; connect them to one chain without a cycle",
        ),
        (
            GraphError::NoBlocks { num_layers: 2 },
            "none of the 2 layers is a transformer block; stages and units are counted in blocks, so give the model \
             at least one",
        ),
        (
            GraphError::RoleOrder { layer: layer.clone(), role, previous },
            "layer `h.2` (block 2) cannot follow block 0; order the chain as embeddings, blocks 0, 1, 2, ... without \
             a gap, heads",
        ),
        (
            GraphError::RoleOrder { layer, role, previous: None },
            "layer `h.2` (block 2) cannot come first; order the chain as embeddings, blocks 0, 1, 2, ... without a \
             gap, heads",
        ),
        (
            GraphError::TiedRole { layer: "h.2".to_owned(), role },
            "layer `h.2` (block 2) is marked as a use of a tied weight that is not its own; only an embedding and a \
             head share a weight",
        ),
        (
            GraphError::TiedUses { num_embeddings: 1, num_heads: 2 },
            "a tied weight is used by 1 embeddings and 2 heads; mark exactly one of each, or of each slice, or none",
        ),
        (
            GraphError::TiedSizes { embedding_parameters: 100, head_parameters: 99 },
            "the embedding's use of the tied weight has 100 parameters and the head's 99; they are the same weight, \
             so make them equal or untie them",
        ),
    ];
    for (error, message) in messages {
        assert_eq!(error.to_string(), message);
    }
}
