//! Which lines are the conversation: the path from the last leaf to the root, with the parallel branches that belong to it.

use super::lines::{Kind, Line};
use std::collections::{HashMap, HashSet};

/// The conversation among some lines, in order, as indexes into `lines`. `members` are the candidates in the order of the file.
pub(super) fn conversation(lines: &[Line<'_>], members: &[usize]) -> Vec<usize> {
    let get = |at: &usize| lines.get(*at);
    let mut by_uuid: HashMap<&str, usize> = HashMap::new();
    for at in members {
        if let Some(uuid) = get(at).and_then(|line| line.uuid.as_deref()) {
            by_uuid.entry(uuid).or_insert(*at);
        }
    }
    // A file without a tree is a list.
    let names = |line: &Line<'_>| line.parent.as_deref().is_some_and(|parent| by_uuid.contains_key(parent));
    let has_parents = members.iter().filter_map(get).any(names);
    if by_uuid.is_empty() || !has_parents {
        return members.to_vec();
    }
    let order: HashMap<usize, usize> = members.iter().enumerate().map(|(n, at)| (*at, n)).collect();
    let before = |at: usize| {
        let place = order.get(&at).copied()?.checked_sub(1)?;
        members.get(place).copied()
    };
    let Some(leaf) = leaf(lines, members) else { return Vec::new() };
    let (mut path, mut seen) = (Vec::new(), HashSet::new());
    let mut next = Some(leaf);
    while let Some(at) = next {
        if !seen.insert(at) {
            break;
        }
        path.push(at);
        let Some(line) = lines.get(at) else { break };
        let logical = line.fields.word("logicalParentUuid");
        next = match line.parent.as_deref().or(logical.as_deref()) {
            // A compaction begins a new root, and what it stands for is before it.
            None if line.is_system("compact_boundary") || line.uuid.is_none() => before(at),
            None => None,
            // A parent that is not there is repaired by place.
            Some(parent) => by_uuid.get(parent).copied().or_else(|| before(at)),
        };
    }
    path.reverse();
    with_parallels(lines, members, path)
}

/// The last line that a conversation can end with, wherever it stands: nothing names it as its parent.
fn leaf(lines: &[Line<'_>], members: &[usize]) -> Option<usize> {
    let get = |at: &usize| lines.get(*at);
    let said = |line: &Line<'_>| matches!(line.kind, Kind::User | Kind::Assistant) || line.is_system("local_command");
    let parents: HashSet<&str> = members.iter().filter_map(|at| get(at)?.parent.as_deref()).collect();
    let is_leaf = |line: &Line<'_>| line.uuid.as_deref().is_none_or(|uuid| !parents.contains(uuid));
    let last = |wanted: &dyn Fn(&Line<'_>) -> bool| members.iter().rev().find(|at| get(at).is_some_and(wanted)).copied();
    // The last leaf that says something; links hang off what was said, so that a leaf may say nothing.
    let leaf = last(&|line: &Line<'_>| is_leaf(line) && said(line));
    let link = last(&|line: &Line<'_>| is_leaf(line) && line.is_chain());
    match (leaf, link) {
        (Some(leaf), Some(link)) => {
            let time = |at: usize| lines.get(at).and_then(|line| line.at);
            Some(if (time(link), link) > (time(leaf), leaf) { link } else { leaf })
        }
        (leaf, link) => leaf.or(link),
    }
}

/// Adds the calls and results of one answer that hang beside the path: each result off its own call.
fn with_parallels(lines: &[Line<'_>], members: &[usize], path: Vec<usize>) -> Vec<usize> {
    let on_path: HashSet<usize> = path.iter().copied().collect();
    let of_path = || path.iter().filter_map(|at| lines.get(*at));
    let uuids: HashSet<&str> = of_path().filter_map(|line| line.uuid.as_deref()).collect();
    let is_beside = |line: &Line<'_>| line.parent.as_deref().is_some_and(|parent| uuids.contains(parent));
    let mut off_path = members.iter().filter(|at| !on_path.contains(at)).filter_map(|at| lines.get(*at));
    if !off_path.any(is_beside) {
        return path;
    }
    let answers: HashSet<&str> = of_path().filter_map(|line| line.message_id.as_deref()).collect();
    let mut calls: HashSet<String> = of_path().flat_map(Line::calls).collect();
    let answered: HashSet<String> = of_path().flat_map(Line::results).collect();
    // Off the path, by the uuid of the line that they belong behind.
    let mut beside: HashMap<String, Vec<usize>> = HashMap::new();
    let mut beside_uuids: HashSet<String> = HashSet::new();
    for at in members.iter().filter(|at| !on_path.contains(at)) {
        let Some(line) = lines.get(*at) else { continue };
        let Some(parent) = &line.parent else { continue };
        if !uuids.contains(parent.as_str()) && !beside_uuids.contains(parent) {
            continue;
        }
        let is_part = match line.kind {
            Kind::Assistant => line.message_id.as_deref().is_some_and(|id| answers.contains(id)),
            Kind::User => {
                let results = line.results();
                !results.is_empty() && results.iter().all(|id| calls.contains(id) && !answered.contains(id))
            }
            Kind::System | Kind::Attachment | Kind::Link | Kind::Beside => false,
        };
        if is_part {
            calls.extend(line.calls());
            beside_uuids.extend(line.uuid.clone());
            beside.entry(parent.clone()).or_default().push(*at);
        }
    }
    if beside.is_empty() {
        return path;
    }
    let mut whole = Vec::new();
    for at in path {
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            whole.push(at);
            let below = lines.get(at).and_then(|line| beside.remove(line.uuid.as_deref()?));
            open.extend(below.into_iter().flatten().rev());
        }
    }
    whole
}
