// Sleeps and waits of Rust's standard library, each for a known number of units.
//
// usage: rust_clocks SECONDS_PER_UNIT [WAY...]
//
// Prints {way: [units it should take, units it took]}.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

#[derive(Clone, Copy)]
struct Unit(Duration);

impl Unit {
    fn times(self, count: f64) -> Duration {
        self.0.mul_f64(count)
    }
}

type Way = (&'static str, f64, fn(Unit));

fn sleep(unit: Unit) {
    thread::sleep(unit.times(10.0));
}

fn instant_and_system_time(unit: Unit) {
    let instant = Instant::now();
    let system = SystemTime::now();
    thread::sleep(unit.times(10.0));
    assert!(instant.elapsed() >= unit.times(10.0));
    // The clock of the wall may be set while this runs, on a real machine.
    assert!(system.elapsed().unwrap() >= unit.times(9.9));
}

fn recv_timeout(unit: Unit) {
    let (_sender, receiver) = channel::<i32>();
    assert_eq!(receiver.recv_timeout(unit.times(10.0)), Err(RecvTimeoutError::Timeout));
}

fn recv_in_time(unit: Unit) {
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || {
        thread::sleep(unit.times(10.0));
        sender.send(5).unwrap();
    });
    assert_eq!(receiver.recv_timeout(unit.times(100.0)), Ok(5));
    thread.join().unwrap();
}

fn channel_of_messages(unit: Unit) {
    let (sender, receiver) = channel();
    let thread = thread::spawn(move || {
        for i in 0..10 {
            thread::sleep(unit.times(1.0));
            sender.send(i).unwrap();
        }
    });
    assert_eq!(receiver.iter().count(), 10);
    thread.join().unwrap();
}

fn condvar_timeout(unit: Unit) {
    let mutex = Mutex::new(());
    let (_guard, result) = Condvar::new()
        .wait_timeout_while(mutex.lock().unwrap(), unit.times(10.0), |_| true)
        .unwrap();
    assert!(result.timed_out());
}

fn condvar_notified(unit: Unit) {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = pair.clone();
    let thread = thread::spawn(move || {
        thread::sleep(unit.times(10.0));
        *other.0.lock().unwrap() = true;
        other.1.notify_one();
    });
    let guard = pair.0.lock().unwrap();
    let (_guard, result) =
        pair.1.wait_timeout_while(guard, unit.times(100.0), |done| !*done).unwrap();
    assert!(!result.timed_out());
    thread.join().unwrap();
}

fn park_timeout(unit: Unit) {
    let end = Instant::now() + unit.times(10.0);
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) {
        thread::park_timeout(left);
    }
}

fn unparked(unit: Unit) {
    let main = thread::current();
    let thread = thread::spawn(move || {
        thread::sleep(unit.times(10.0));
        main.unpark();
    });
    thread::park();
    thread.join().unwrap();
}

fn held_mutex(unit: Unit) {
    let mutex = Arc::new(Mutex::new(0));
    let held = mutex.clone();
    let barrier = Arc::new(Barrier::new(2));
    let locked = barrier.clone();
    let thread = thread::spawn(move || {
        let _guard = held.lock().unwrap();
        locked.wait();
        thread::sleep(unit.times(10.0));
    });
    barrier.wait();
    drop(mutex.lock().unwrap());
    thread.join().unwrap();
}

fn scoped_threads(unit: Unit) {
    thread::scope(|scope| {
        for i in 1..=20 {
            scope.spawn(move || thread::sleep(unit.times(f64::from(i) / 2.0)));
        }
    });
}

fn timed_out(kind: ErrorKind) -> bool {
    kind == ErrorKind::WouldBlock || kind == ErrorKind::TimedOut
}

fn tcp_read_timeout(unit: Unit) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut left = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let _right = listener.accept().unwrap();
    left.set_read_timeout(Some(unit.times(10.0))).unwrap();
    assert!(timed_out(left.read(&mut [0]).unwrap_err().kind()));
}

fn unix_read_timeout(unit: Unit) {
    let (mut left, _right) = UnixStream::pair().unwrap();
    left.set_read_timeout(Some(unit.times(10.0))).unwrap();
    assert!(timed_out(left.read(&mut [0]).unwrap_err().kind()));
}

fn udp_read_timeout(unit: Unit) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(unit.times(10.0))).unwrap();
    assert!(timed_out(socket.recv(&mut [0]).unwrap_err().kind()));
}

fn stream_between_threads(unit: Unit) {
    let (mut left, mut right) = UnixStream::pair().unwrap();
    let thread = thread::spawn(move || {
        for _ in 0..5 {
            thread::sleep(unit.times(1.0));
            right.write_all(&[1]).unwrap();
            right.read_exact(&mut [0]).unwrap();
        }
    });
    for _ in 0..5 {
        left.read_exact(&mut [0]).unwrap();
        thread::sleep(unit.times(1.0));
        left.write_all(&[2]).unwrap();
    }
    thread.join().unwrap();
}

fn connect_timeout(unit: Unit) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    TcpStream::connect_timeout(&address, unit.times(100.0)).unwrap();
}

fn child_process(unit: Unit) {
    let seconds = unit.times(10.0).as_secs_f64().to_string();
    assert!(Command::new("sleep").arg(seconds).status().unwrap().success());
}

fn output_of_a_child(unit: Unit) {
    let script = format!("sleep {}; echo over", unit.times(10.0).as_secs_f64());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(output.stdout, b"over\n");
}

const WAYS: &[Way] = &[
    ("sleep", 10.0, sleep),
    ("instant_and_system_time", 10.0, instant_and_system_time),
    ("recv_timeout", 10.0, recv_timeout),
    ("recv_in_time", 10.0, recv_in_time),
    ("channel_of_messages", 10.0, channel_of_messages),
    ("condvar_timeout", 10.0, condvar_timeout),
    ("condvar_notified", 10.0, condvar_notified),
    ("park_timeout", 10.0, park_timeout),
    ("unparked", 10.0, unparked),
    ("held_mutex", 10.0, held_mutex),
    ("scoped_threads", 10.0, scoped_threads),
    ("tcp_read_timeout", 10.0, tcp_read_timeout),
    ("unix_read_timeout", 10.0, unix_read_timeout),
    ("udp_read_timeout", 10.0, udp_read_timeout),
    ("stream_between_threads", 10.0, stream_between_threads),
    ("connect_timeout", 0.0, connect_timeout),
    ("child_process", 10.0, child_process),
    ("output_of_a_child", 10.0, output_of_a_child),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: f64 = arguments.next().unwrap().parse().unwrap();
    let unit = Unit(Duration::from_secs_f64(seconds));
    let names: Vec<String> = arguments.collect();
    let mut rows = Vec::new();
    for (name, asked, run) in WAYS {
        if !names.is_empty() && !names.iter().any(|wanted| wanted == name) {
            continue;
        }
        let begin = Instant::now();
        run(unit);
        let took = begin.elapsed().as_secs_f64() / seconds;
        rows.push(format!("\"{}\": [{}, {:.9}]", name, asked, took));
    }
    println!("{{{}}}", rows.join(",\n "));
}
