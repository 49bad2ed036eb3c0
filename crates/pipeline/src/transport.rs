//! Unix and TCP sockets behind one address.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::pipeline_file::Connector;

/// Where a socket listens: `unix:PATH` or `tcp:IP:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP socket.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

/// A text that is no address.
#[derive(Debug)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no address: write unix:PATH or tcp:IP:PORT", self.0)
    }
}

impl std::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => {
                address.parse().map(Self::Tcp).map_err(|_| AddressError(text.to_owned()))
            }
            _ => Err(AddressError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket.
    Unix(UnixListener, PathBuf),
    /// A TCP socket.
    Tcp(TcpListener),
}

impl Listener {
    /// Listens in `directory` under `name`, or on a loopback port that the system picks.
    ///
    /// # Errors
    /// What the system says, with the address.
    pub fn bind(connector: Connector, directory: &Path, name: &str) -> io::Result<Self> {
        match connector {
            Connector::Unix => {
                let path = directory.join(format!("{name}.sock"));
                let listener = UnixListener::bind(&path).map_err(|e| {
                    io::Error::new(e.kind(), format!("can't listen on {}: {e}", path.display()))
                })?;
                Ok(Self::Unix(listener, path))
            }
            Connector::Tcp => TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
                .map(Self::Tcp)
                .map_err(|e| io::Error::new(e.kind(), format!("can't listen on a loopback port: {e}"))),
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Unix(_, path) => Ok(Address::Unix(path.clone())),
            Self::Tcp(listener) => listener.local_addr().map(Address::Tcp),
        }
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// What the system says.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Self::Tcp(listener) => listener.accept().and_then(|(stream, _)| Stream::tcp(stream)),
        }
    }
}

/// A connected, blocking socket.
#[derive(Debug)]
pub enum Stream {
    /// A Unix socket.
    Unix(UnixStream),
    /// A TCP socket.
    Tcp(TcpStream),
}

impl Stream {
    /// Connects.
    ///
    /// # Errors
    /// What the system says, with the address.
    pub fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Address::Tcp(address) => TcpStream::connect(address).and_then(Self::tcp),
        }
        .map_err(|e| io::Error::new(e.kind(), format!("can't connect to {address}: {e}")))
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        // Frames are written whole, and the next step waits for them.
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// A second handle to the same socket.
    ///
    /// # Errors
    /// What the system says.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    /// Ends both directions; readers on other handles see the end.
    pub fn shut_down(&self) {
        // An error means that it is ended already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.flush(),
            Self::Tcp(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;

    #[test]
    fn addresses_are_texts() {
        for text in ["unix:/run/a b.sock", "tcp:127.0.0.1:80", "tcp:[::1]:80"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for bad in ["", "unix:", "tcp:localhost", "http://a", "tcp:1.2.3.4"] {
            assert!(bad.parse::<Address>().unwrap_err().to_string().contains("no address"), "{bad}");
        }
    }

    #[test]
    fn frames_cross_both_kinds_of_socket() {
        let directory = tempfile::tempdir().unwrap();
        for connector in [Connector::Unix, Connector::Tcp] {
            let listener = Listener::bind(connector, directory.path(), "stage").unwrap();
            let mut near = Stream::connect(&listener.address().unwrap()).unwrap();
            let mut far = listener.accept().unwrap();
            let frame = Frame::new(7, vec![1, 2, 3]);
            frame.write_to(&mut near).unwrap();
            assert_eq!(Frame::read_from(&mut far).unwrap(), frame);
            near.shut_down();
            assert!(Frame::read_from(&mut far).is_err());
        }
    }

    #[test]
    fn a_socket_in_use_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let _first = Listener::bind(Connector::Unix, directory.path(), "stage").unwrap();
        let error = Listener::bind(Connector::Unix, directory.path(), "stage").unwrap_err().to_string();
        assert!(error.contains("stage.sock"), "{error}");
    }
}
