//! The body of a request that tells how it leaves.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::transport::pulse::{Pulse, current};

/// Bytes that are handed to a connection at a time.
const CHUNK: usize = 64 << 10;

/// Bytes to send. Each byte that a connection takes is progress: a slow line is not a
/// dead one.
pub(super) struct Upload {
    rest: Bytes,
    sent: u64,
    /// Until when the server may answer to the headers alone.
    pause: Option<Pin<Box<Sleep>>>,
    /// Pulse of the request, and of all its attempts.
    pulses: [Option<Arc<Pulse>>; 2],
}

impl Upload {
    /// A body for the attempt that runs here, which begins to leave after a pause; `pulse`
    /// is that of the request.
    pub(super) fn new(rest: Bytes, pulse: Arc<Pulse>, pause: Duration) -> Self {
        Self {
            rest,
            sent: 0,
            pause: (!pause.is_zero()).then(|| Box::pin(sleep(pause))),
            pulses: [Some(pulse), current()],
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let size = self.rest.len().min(CHUNK);
        if size == 0 {
            return Poll::Ready(None);
        }
        let chunk = self.rest.split_to(size);
        self.sent += size as u64;
        for pulse in self.pulses.iter().flatten() {
            pulse.left(self.sent);
        }
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
