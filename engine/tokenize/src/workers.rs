//! Tokenizes batches on several threads, and hands them on in the order in which they were read.

use std::collections::BTreeMap;
use std::thread;

use crossbeam::channel::{Receiver, Sender, bounded, unbounded};

use pipezero_tokens::documents::{Document, DocumentMaker};

use super::error::TokenizeError;
use super::reader::{Batch, Place, Reader};

/// A batch as tokens.
#[derive(Debug)]
pub(super) struct Tokens {
    pub(super) documents: Vec<Document>,
    /// Where the next batch begins.
    pub(super) next: Place,
    /// Bytes of the inputs up to there.
    pub(super) num_bytes: u64,
}

type Numbered<T> = (u64, T);

/// Tokenizes all batches of a reader; calls `each` with them in order.
///
/// At most four batches for each thread are between reader and `each`, so memory does not depend on the inputs' size.
pub(super) fn tokenize(
    mut reader: Reader<'_>,
    maker: &DocumentMaker,
    num_threads: usize,
    mut each: impl FnMut(Tokens) -> Result<(), TokenizeError>,
) -> Result<(), TokenizeError> {
    let limit = 4 * num_threads as u64;
    thread::scope(|scope| {
        // They end with this block, however it ends, and with them the workers.
        let (to_workers, batches) = bounded::<Numbered<Batch>>(limit as usize);
        let (to_writer, done) = unbounded();
        for _ in 0..num_threads {
            let (batches, to_writer) = (batches.clone(), to_writer.clone());
            scope.spawn(move || work(maker, &batches, &to_writer));
        }
        // Else the last worker's end would not be noticed.
        drop((batches, to_writer));
        let mut waiting = BTreeMap::new();
        let (mut num_read, mut num_written) = (0, 0);
        let mut end = None;
        loop {
            while end.is_none() && num_read - num_written < limit {
                match reader.batch() {
                    Ok(Some(batch)) => {
                        to_workers.send((num_read, batch)).expect("the workers wait for batches");
                        num_read += 1;
                    }
                    Ok(None) => end = Some(Ok(())),
                    // What was read before comes first, and what is wrong with it.
                    Err(error) => end = Some(Err(error)),
                }
            }
            if let Some(end) = end.take_if(|_| num_written == num_read) {
                return end;
            }
            let (number, tokens) = done.recv().expect("the workers answer each batch");
            waiting.insert(number, tokens);
            while let Some(tokens) = waiting.remove(&num_written) {
                each(tokens?)?;
                num_written += 1;
            }
        }
    })
}

fn work(
    maker: &DocumentMaker,
    batches: &Receiver<Numbered<Batch>>,
    to_writer: &Sender<Numbered<Result<Tokens, TokenizeError>>>,
) {
    for (number, batch) in batches {
        // The writer has ended with an error where it takes no more.
        if to_writer.send((number, tokens_of(maker, batch))).is_err() {
            return;
        }
    }
}

fn tokens_of(maker: &DocumentMaker, batch: Batch) -> Result<Tokens, TokenizeError> {
    let Batch { path, layout, records, next, num_bytes } = batch;
    let mut documents = Vec::with_capacity(records.len());
    for (line, record) in records {
        let document = maker.document(&layout, &record);
        let error = |fault| TokenizeError::Document { path: path.clone(), line, fault: Box::new(fault) };
        documents.push(document.map_err(error)?);
    }
    Ok(Tokens { documents, next, num_bytes })
}
