//! Credentials and private state are sent everywhere they can be, and then looked for in everything that was written.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// The operator's credential, from the environment.
const PROVIDER_KEY: &str = "sk-canary-provider-4f8a1c";
/// What clients send to authenticate, in every place where one can be sent.
const CLIENT: [&str; 5] = [
    "canary-bearer-7d21",
    "canary-api-key-9b30",
    "canary-goog-key-1e55",
    "canary-cookie-6c17",
    "canary-query-key-3a90",
];
/// What the provider sends besides the answer.
const PROVIDER: [&str; 2] = ["canary-set-cookie-b2", "canary-signature-Zm9vYmFyYmF6"];
/// What is part of the conversation, and so must be found: the scan is not blind.
const PUBLIC: &str = "public-canary-text";

/// Reads one HTTP request and gives head and body.
fn read_request(stream: &TcpStream) -> Option<(String, String)> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line);
    }
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned))
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, String::from_utf8_lossy(&body).into_owned()))
}

/// Heads and bodies of requests, as they arrived.
type Seen = Arc<Mutex<Vec<(String, String)>>>;

/// A provider that answers every request with a signed thought and a text. Gives its address and what it was sent.
fn provider() -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Some(request) = read_request(&stream) else { continue };
            log.lock().unwrap().push(request);
            let body = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": null,
                "content": [{"type": "thinking", "thinking": "hm", "signature": PROVIDER[1]}, {"type": "text", "text": "fine"}],
                "usage": {"input_tokens": 1, "output_tokens": 1}})
            .to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nset-cookie: session={}\r\nrequest-id: req_1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                PROVIDER[0],
                body.len()
            );
            let _ = (&stream)
                .write_all(head.as_bytes())
                .and_then(|()| (&stream).write_all(body.as_bytes()));
        }
    });
    (address, seen)
}

/// Sends a request with every kind of credential, and gives the status line and the body.
fn ask(address: &str, path: &str, body: &Value) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    let request = format!(
        "POST {path}?key={} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nauthorization: Bearer {}\r\nx-api-key: {}\r\nx-goog-api-key: {}\r\ncookie: session={}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        CLIENT[4],
        CLIENT[0],
        CLIENT[1],
        CLIENT[2],
        CLIENT[3],
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, rest) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), rest.to_owned())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}

fn holders(folder: &Path, needle: &str) -> Vec<PathBuf> {
    let holds = |path: &PathBuf| {
        std::fs::read(path)
            .unwrap()
            .windows(needle.len())
            .any(|window| window == needle.as_bytes())
    };
    files(folder).into_iter().filter(holds).collect()
}

fn scan(data: &Path, log: &str, when: &str) {
    for canary in CLIENT.iter().chain(&PROVIDER).chain([&PROVIDER_KEY]) {
        assert_eq!(holders(data, canary), Vec::<PathBuf>::new(), "{when}: {canary}");
        assert!(!log.contains(canary), "{when}: the log has {canary}");
    }
    assert!(!log.contains(PUBLIC), "{when}: the log has what was said");
}

#[test]
fn nothing_secret_is_written_anywhere() {
    throughline_format::clause!("TRAN-03", "SEC-02", "PDATA-02");
    let (address, seen) = provider();
    let folder = tempfile::tempdir().unwrap();
    let (data, config) = (folder.path().join("data"), folder.path().join("throughline.toml"));
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[store]\ndiagnostics = true\n[providers.up]\nkind = \"anthropic\"\nbase_url = \"http://{address}\"\napi_key_env = \"CANARY_KEY\"\n[[routes]]\nmatch = \"*\"\nprovider = \"up\"\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut gateway = Command::new(env!("CARGO_BIN_EXE_throughline"))
        .args(["serve", "--config", config.to_str().unwrap(), "--data-dir", data.to_str().unwrap()])
        .env("CANARY_KEY", PROVIDER_KEY)
        .env("THROUGHLINE_LOG", "trace")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let url = ready.trim().rsplit("http://").next().unwrap().to_owned();
    let mut errors = gateway.stderr.take().unwrap();
    let log = std::thread::spawn(move || {
        let mut text = String::new();
        errors.read_to_string(&mut text).unwrap();
        text
    });
    let picture = throughline_format::media::encode_base64(&vec![9; 300_000]);
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": PUBLIC}, {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{picture}")}}]}]});
    let messages = json!({"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": PUBLIC}]});
    for (path, body) in [
        ("/v1/chat/completions", &chat),
        ("/v1/messages", &messages),
        ("/v1/messages", &messages),
    ] {
        let (status, answer) = ask(&url, path, body);
        assert!(status.contains(" 200 "), "{path}: {status} {answer}");
    }
    // Requests that are refused are logged as well.
    for (path, body) in [
        ("/v1/messages", json!({"model": 7})),
        ("/nothing", json!({})),
        ("/unified/v2/operations/op_x/cancel", json!({})),
    ] {
        assert!(!ask(&url, path, &body).0.contains(" 200 "));
    }
    // While it runs, the log of the database included; then after an orderly end.
    scan(&data, "", "running");
    assert!(data.join("throughline.db-wal").exists());
    let stopped = Command::new("kill").arg(gateway.id().to_string()).status().unwrap();
    assert!(stopped.success() && gateway.wait().unwrap().success());
    let log = log.join().unwrap();
    scan(&data, &log, "stopped");
    // None of it was blind: the provider was given its key, what was said is in the database, and there are artifacts, sealed
    // resources, raw bodies and a log.
    let requests = seen.lock().unwrap();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|(head, _)| head.contains(PROVIDER_KEY)));
    for (head, body) in requests.iter() {
        for canary in CLIENT {
            assert!(!head.contains(canary) && !body.contains(canary), "upstream got {canary}");
        }
    }
    assert!(!holders(&data, PUBLIC).is_empty());
    assert!(!files(&data.join("artifacts")).is_empty() && !files(&data.join("diagnostics")).is_empty());
    assert!(log.lines().count() > 20, "{log}");
    let path = data.to_str().unwrap();
    let listed = crate::support::throughline(&["conversation", "list", "--db", path], "").json();
    let mut sealed = 0;
    for conversation in listed["data"].as_array().unwrap() {
        let id = conversation["conversationId"].as_str().unwrap();
        let run = crate::support::throughline(&["conversation", "export", id, "--artifacts", "--db", path], "");
        sealed += run.lines()[0]["privateResources"].as_array().unwrap().len();
        for canary in CLIENT.iter().chain(&PROVIDER).chain([&PROVIDER_KEY]) {
            assert!(!run.stdout.contains(canary), "the bundle has {canary}");
        }
    }
    assert!(sealed >= 1, "the signature is kept as a sealed resource");
}
