//! Dropout, and looking up tokens.

use pipezero_models::Buffer;
use pipezero_models::kernels::dropout::Place;
use pipezero_models::queue::Positions;

use super::{ELEMENTS, MODES, document_starts, drawn, masks, same_in};

#[test]
#[ignore = "needs a GPU, or the fake GPU"]
fn masks_and_lookups_are_the_hosts_to_the_bit() {
    // More columns than a block has counters for, and more tokens than are compared at a time.
    let large = [(1, 2, 1104), (1, 1300, 3)];
    let drawn = drawn(|draws| (1 + draws.below(3), 1 + draws.below(30), 1 + draws.below(400)));
    for (sequences, t, width) in
        [(1, 1, 1), (2, 6, 12), (3, 5, 130), (1, 33, 257), (2, 4, 264)].into_iter().chain(large).chain(drawn)
    {
        let rows = sequences * t;
        for element in ELEMENTS {
            same_in(element, &format!("dropout of {rows} x {width}"), 0.0, |on| {
                let masks = masks(0.3, Place::MlpBranch(1), sequences, t).unwrap();
                let (mut x, mut y) = (on.elements(rows * width), on.elements(rows * width));
                on.queue.dropout(masks, x.view_mut(), width);
                on.round(&mut x);
                on.queue.dropout_add_residual(masks, x.view(), y.view_mut(), width);
                on.round(&mut y);
                vec![on.values(&x), on.values(&y)]
            });
            same_in(element, &format!("lookups of {rows} x {width}"), 0.0, |on| {
                // Neighbours are alike, and one token comes again at the distances at which tiles end.
                let token = |n: u32| if [256, 512, 1279, 1280].contains(&n) { 10 } else { (n / 2 * 7) % 10 };
                let tokens: Vec<u32> = (0..rows as u32).map(token).collect();
                let tokens = on.words(&tokens);
                let mut results = Vec::new();
                // A whole table, and a slice of one.
                for (first_token, num_rows) in [(0, 11), (4, 5)] {
                    let (table, mut y) = (on.elements(num_rows * width), on.elements(rows * width));
                    on.queue.embedding(tokens.view(), first_token, table.view(), y.view_mut());
                    results.push(on.values(&y));
                    for mode in MODES {
                        let mut dtable = on.floats(num_rows * width);
                        on.queue.embedding_backward(
                            tokens.view(),
                            first_token,
                            y.view(),
                            dtable.view_mut(),
                            mode,
                        );
                        results.push(on.values(&dtable));
                    }
                }
                results
            });
            same_in(element, &format!("positions of {rows} x {width}"), 0.0, |on| {
                let starts = [1, 3, t].map(|longest| on.words(&document_starts(sequences, t, longest)));
                let mut results = Vec::new();
                for starts in starts.iter().map(Some).chain([None]) {
                    let numbers = Positions { seq_length: t, document_starts: starts.map(Buffer::view) };
                    let (positions, mut y) = (on.elements((t + 2) * width), on.elements(rows * width));
                    on.queue.add_positions(numbers, positions.view(), y.view_mut(), width);
                    on.round(&mut y);
                    results.push(on.values(&y));
                    for mode in MODES {
                        let mut dpositions = on.floats((t + 2) * width);
                        on.queue.positions_backward(numbers, y.view(), dpositions.view_mut(), width, mode);
                        results.push(on.values(&dpositions));
                    }
                }
                results
            });
        }
    }
}
