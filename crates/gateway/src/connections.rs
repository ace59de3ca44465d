//! Serves a port: how many connections there are at one time, and how long one may take to say what it wants. How long a body may
//! take is for its reader (`http/body.rs`), since only it knows whether the body is still wanted.

use axum::Router;
use axum::serve::Listener;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Bounds of the connections of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// Connections at one time; others wait until one of them ends.
    pub(crate) connections: usize,
    /// From one request's end, or the connection's begin, to the next request's whole head.
    pub(crate) idle: Duration,
}

/// Serves until it is stopped: then it takes no connection any more, and ends with the last request. Connections end with this future.
pub(crate) async fn serve(mut listener: TcpListener, router: Router, limits: ConnectionLimits, mut stopped: oneshot::Receiver<()>) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let (graceful, mut connections) = (GracefulShutdown::new(), JoinSet::new());
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            // It tries again by itself when the system has no socket left.
            let (socket, _) = Listener::accept(&mut listener).await;
            (slot, socket)
        };
        tokio::select! {
            biased;
            // Whoever can stop it and is gone stops it too.
            _ = &mut stopped => break,
            (slot, socket) = next => {
                // Answers are streams of small pieces. A socket that cannot be told so is slower, no more.
                let _ = socket.set_nodelay(true);
                connections.spawn(connection(socket, router.clone(), limits.idle, graceful.watcher(), slot.ok()));
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn connection(socket: TcpStream, router: Router, idle: Duration, watcher: Watcher, _slot: Option<OwnedSemaphorePermit>) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(idle);
    // A peer that is gone without a word is noticed; a stream without events may well be silent for longer.
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(idle)
        .keep_alive_timeout(idle);
    let (begun, asked) = (Arc::new(Notify::new()), TowerToHyperService::new(router));
    let first = Arc::clone(&begun);
    let service = service_fn(move |request: Request<Incoming>| {
        first.notify_one();
        asked.call(request)
    });
    // hyper's own bound begins once it knows the version of HTTP, and there is none for HTTP/2.
    let late = async {
        if timeout(idle, begun.notified()).await.is_ok() {
            std::future::pending::<()>().await;
        }
    };
    let served = builder.serve_connection(TokioIo::new(socket), service);
    tokio::select! {
        ended = watcher.watch(served) => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke");
            }
        }
        () = late => tracing::debug!("a connection without a request was closed"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const IDLE: Duration = Duration::from_millis(300);

    struct Port {
        address: SocketAddr,
        stop: oneshot::Sender<()>,
        task: tokio::task::JoinHandle<()>,
    }

    /// `/` answers at once, `/slow` with a body that takes three times as long as a head may.
    async fn start(connections: usize) -> Port {
        let slow = get(|| async {
            let chunks = futures_util::stream::unfold(0, |sent| async move {
                tokio::time::sleep(IDLE).await;
                (sent < 3).then_some((Ok::<_, std::io::Error>("x"), sent + 1))
            });
            Body::from_stream(chunks)
        });
        let router = Router::new().route("/", get(|| async { "hello" })).route("/slow", slow);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let limits = ConnectionLimits { connections, idle: IDLE };
        let task = tokio::spawn(serve(listener, router, limits, stopped));
        Port { address, stop, task }
    }

    /// What comes until the other side closes.
    async fn rest(socket: &mut TcpStream) -> String {
        let mut text = Vec::new();
        // A reset is an end as well.
        let _ = timeout(IDLE * 20, socket.read_to_end(&mut text)).await.unwrap();
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn a_request_that_does_not_come_closes_the_connection() {
        let port = start(8).await;
        for (sent, answers) in [
            ("", 0),
            ("G", 0),
            ("P", 0),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n", 0),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0),
            ("GET / HTTP/1.1\r\nHost: x\r\n", 0),
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT", 1),
            ("GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 1),
        ] {
            let mut socket = TcpStream::connect(port.address).await.unwrap();
            socket.write_all(sent.as_bytes()).await.unwrap();
            let mut read = Vec::new();
            let _ = timeout(IDLE * 20, socket.read_to_end(&mut read)).await.unwrap();
            let read = String::from_utf8_lossy(&read);
            assert_eq!(read.matches("200 OK").count(), answers, "{sent:?}: {read}");
            if sent.contains("slow") {
                assert!(read.ends_with("0\r\n\r\n"), "an answer takes as long as it takes: {read}");
            }
        }
    }

    #[tokio::test]
    async fn a_connection_beyond_the_limit_waits() {
        let port = start(1).await;
        let ask = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let mut first = TcpStream::connect(port.address).await.unwrap();
        first
            .write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut head = [0; 12];
        first.read_exact(&mut head).await.unwrap();
        let mut second = TcpStream::connect(port.address).await.unwrap();
        second.write_all(ask).await.unwrap();
        assert!(timeout(IDLE / 2, second.read_u8()).await.is_err(), "one at a time");
        assert!(rest(&mut first).await.ends_with("0\r\n\r\n"));
        assert!(rest(&mut second).await.ends_with("hello"));
    }

    #[tokio::test]
    async fn stopping_ends_with_the_last_answer_and_dropping_at_once() {
        for is_dropped in [false, true] {
            let port = start(8).await;
            let mut socket = TcpStream::connect(port.address).await.unwrap();
            socket.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut head = [0; 12];
            socket.read_exact(&mut head).await.unwrap();
            let Port { address, stop, task } = port;
            if is_dropped {
                task.abort();
            } else {
                stop.send(()).unwrap();
            }
            assert_eq!(rest(&mut socket).await.ends_with("0\r\n\r\n"), !is_dropped);
            assert_eq!(task.await.is_ok(), !is_dropped);
            assert!(TcpStream::connect(address).await.is_err());
        }
    }
}
