//! Addresses of servers as a record may hold them (open-types.md, section 2): no user information, no query, no fragment.

/// An address without what may hold a credential: user name, password, query and fragment.
pub(crate) fn plain(address: &str) -> String {
    let bare = address.split(['?', '#']).next().unwrap_or_default();
    match bare.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, tail) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            format!("{scheme}://{host}{tail}")
        }
        None => bare.to_owned(),
    }
}
