//! Shallow clones and fetches.

use crate::matrix;

#[test]
fn depths() {
    matrix(
        "shallow",
        &[
            "$ git clone --depth 1 $URL got",
            "$ git clone --depth 2 $URL got",
            "$ git clone --depth 100 $URL got",
            "! git clone --depth 0 $URL got",
            "$ git clone --depth 1 --no-single-branch $URL got",
            "$ git clone --depth 1 -b side $URL got",
            "$ git clone --depth 1 -b v1.0 $URL got",
            "$ git clone --depth 1 --bare $URL got",
            "$ git clone --depth 1 --mirror $URL got",
            "$ git clone --depth 1 --no-tags $URL got",
            "$ git clone --depth 1 -q --no-checkout $URL got",
            "$ git clone --depth 2 --reference reader $URL got",
            "$ git clone --shallow-since=2023-11-14T22:20:00Z $URL got
             ~ git names the side of a merge that it does not send too; deepening from there may then fail",
            "! git clone --shallow-since=2100-01-01 $URL got",
            "$ git clone --shallow-exclude=v1.0 $URL got
             ~ git names the side of a merge that it does not send too; deepening from there may then fail",
            "$ git clone --shallow-exclude=side --shallow-exclude=light $URL got",
            "! git clone --shallow-exclude=nothing $URL got",
            "! git clone --shallow-exclude=main $URL got",
            "$ git clone --depth 1 $URL got && cd got && git fetch --unshallow",
            "$ git clone --depth 1 $URL got && cd got && git fetch --depth 3",
            "$ git clone --depth 3 $URL got && cd got && git fetch --depth 1",
            "$ git clone --depth 1 $URL got && cd got && git fetch --deepen 1
             got$ git log --format=%s",
            "$ git clone --depth 1 $URL got && cd got && git fetch --deepen 100",
            "$ git clone --depth 1 $URL got && cd got && git fetch --depth 2147483647",
            "$ git clone --depth 1 $URL got && cd got && git fetch --shallow-since=2023-11-14T22:20:00Z
             ~ git names the side of a merge that it does not send too; deepening from there may then fail",
            "$ git clone --depth 1 $URL got && cd got && git fetch --shallow-exclude=v1.0
             ~ git names the side of a merge that it does not send too; deepening from there may then fail",
            "$ git clone --depth 1 $URL got && cd got && git fetch --update-shallow origin side",
            "$ git clone --depth 1 $URL got && cd got && git fetch origin 'refs/heads/*:refs/remotes/origin/*'",
            "$ git clone --depth 1 $URL got && cd got && git fetch origin tag v1.0",
            "$ git clone --depth 1 $URL got && cd got && git fetch --tags",
            "$ git clone --depth 1 $URL got && cd got && git pull --depth 2",
            "$ git clone --depth 1 $URL got && cd got && git pull --unshallow",
            "! git -C reader fetch --unshallow",
            "reader$ git fetch --depth 1",
            "reader$ git fetch --depth 2 origin main",
            "blank$ git fetch --depth 1 origin main",
            "blank$ git fetch --depth 1 origin $(git -C ../up rev-parse side)",
            "blank$ git fetch --depth 2 origin main side",
            "shallow$ git fetch",
            "shallow$ git fetch --unshallow
             shallow$ git log --format=%s main",
            "shallow$ git fetch --deepen 1",
            "shallow$ git pull -q --rebase",
            "shallow$ git fetch --refetch",
            "shallow$ git fetch -p",
            "$ git clone -q --depth 1 $URL got && git -C up push -q origin main && cd got && git pull -q
             got$ git log --format=%s",
            "$ git clone -q --depth 1 $URL got && cd got && commit more && git push -q
             got$ git fetch --unshallow",
            "$ git clone -q --recurse-submodules --shallow-submodules super got
             got$ git -C lib log --format=%s",
            "$ git clone -q super got && cd got && git submodule update --init --depth 1
             got$ git -C lib log --format=%s",
            "$ git -c protocol.version=0 clone --depth 1 $URL got",
            "$ git -c protocol.version=0 clone --depth 2 $URL got && cd got && git -c protocol.version=0 fetch --unshallow",
            "! git clone --reject-shallow --depth 1 shallow got",
        ],
    );
}
