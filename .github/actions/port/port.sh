#!/usr/bin/env bash
# Ports COMMIT to each of BRANCHES in a worktree of REPOSITORY, pushes what was made, and opens a draft pull request
# with the report. What conflicts is left out and listed; a branch on which nothing can be made is named at the end,
# and the exit code is 1.
set -euo pipefail
cd "$REPOSITORY"
commit=$(git rev-parse --verify --quiet --end-of-options "$COMMIT^{commit}") || {
    echo "error: this repository has no commit $COMMIT: check out its whole history (fetch-depth: 0)." >&2
    exit 1
}
# A runner has no identity of its own; the commit keeps its author.
for who in AUTHOR COMMITTER; do
    export "GIT_${who}_NAME=github-actions[bot]" "GIT_${who}_EMAIL=41898282+github-actions[bot]@users.noreply.github.com"
done
title=$(git show -s --format=%s "$commit")
work=$(mktemp -d)
trap 'git worktree prune; rm -rf "$work"' EXIT
failed=()
for branch in $BRANCHES; do
    tree=$work/tree report=$work/report made=patchkit/port-${commit:0:12}-to-$branch code=0
    git fetch --quiet origin "refs/heads/$branch"
    git worktree add --quiet -B "$made" "$tree" FETCH_HEAD
    before=$(git -C "$tree" rev-parse HEAD)
    patchkit port "$commit" --repo . --onto "$tree" --keep-going --commit >"$report" 2>&1 || code=$?
    cat "$report"
    if [ "$code" -gt 1 ] || [ "$(git -C "$tree" rev-parse HEAD)" = "$before" ]; then
        grep -q "already" "$report" && [ "$code" -le 1 ] || failed+=("$branch")
    else
        git -C "$tree" push --quiet --force origin "$made"
        {
            echo "Ported from $commit by patchkit. Read what it says of each edit:"
            printf '\n```\n%s\n```\n' "$(sed 's/```/` ` `/g' "$report")"
        } >"$work/body"
        gh pr create --draft --base "$branch" --head "$made" --title "$title ($branch)" --body-file "$work/body" ||
            echo "The pull request of $made is open already; its branch is the new one." >&2
    fi
    git worktree remove --force "$tree"
done
if [ "${#failed[@]}" -gt 0 ]; then
    echo "error: nothing of $commit could be made on ${failed[*]}: the reports above say why." >&2
    exit 1
fi
