//! Bundles that a client takes first, `--bundle-uri`, and the question for those that a server knows, `transfer.bundleURI`.

use crate::matrix;

#[test]
fn bundles() {
    matrix(
        "bundles",
        &[
            "$ git -C up bundle create -q ../b --all && git clone -q --bundle-uri=b $URL got
             got$ git for-each-ref refs/bundles",
            "$ git -C up branch part main~2 && git -C up bundle create -q ../b part && git clone -q --bundle-uri=$A/b $URL got
             got$ git log --format=%s",
            "$ git -C up bundle create -q ../b main && git clone -q --bundle-uri=file://$A/b $URL got",
            "$ git -C up bundle create -q ../b main && git clone --bundle-uri=b $URL got",
            "$ git -C up bundle create -q ../b main fresh && git clone -q --bundle-uri=b -b side $URL got",
            "$ git -C up bundle create -q ../b main fresh && git clone -q --bundle-uri=b --single-branch -b fresh $URL got",
            "$ git -C up bundle create -q ../b side && git clone -q --bundle-uri=b --no-tags $URL got",
            "$ git -C up bundle create -q ../b main && git clone -q --bundle-uri=b --bare $URL got",
            "$ git -C up bundle create -q ../b main && git clone -q --bundle-uri=b --mirror $URL got",
            "$ git -C up bundle create -q ../b main && git clone -q --bundle-uri=b -n $URL got",
            "$ git -C up bundle create -q ../b main && git clone -q --bundle-uri=b --filter=blob:none $URL got",
            "up$ git bundle create -q ../b main
             ! git clone -q --bundle-uri=b --depth 1 $URL got",
            "up$ git bundle create -q ../b v1.0 refs/tags/light
             $ git clone -q --bundle-uri=b $URL got",
            // What nobody else has.
            "up$ git bundle create -q ../b newest
             $ git clone -q --bundle-uri=b $URL got
             got$ git cat-file -e $(git -C ../up rev-parse newest)",
            "$ git -C up bundle create -q ../b main && git clone -q --bundle-uri=b $URL got
             up$ git push -q origin main newest
             got$ git pull -q && git fetch -q && git log --format=%s origin/newest",
            "$ git clone -q --bundle-uri=nothing $URL got",
            "$ echo nonsense >b && git clone -q --bundle-uri=b $URL got",
            "$ git -C up bundle create -q ../b main && head -c 700 b >cut && git clone -q --bundle-uri=cut $URL got",
            // One that needs what the client lacks.
            "$ git -C up bundle create -q ../b main~3..main && git clone -q --bundle-uri=b $URL got",
            "up$ git branch part main~3 && git bundle create -q ../one part && git bundle create -q ../two main~3..main
             $ printf '[bundle]\\n version = 1\\n mode = all\\n[bundle \"a\"]\\n uri = file://%s/one\\n[bundle \"b\"]\\n uri = file://%s/two\\n' $A $A >list
             $ git clone -q --bundle-uri=file://$A/list $URL got",
            "up$ git branch part main~3 && git bundle create -q ../one part && git bundle create -q ../two main~3..main
             $ printf '[bundle]\\n version = 1\\n mode = any\\n[bundle \"a\"]\\n uri = file://%s/one\\n[bundle \"b\"]\\n uri = file://%s/two\\n' $A $A >list
             $ git clone -q --bundle-uri=file://$A/list $URL got",
            "up$ git branch part main~3 && git bundle create -q ../one part
             $ printf '[bundle]\\n version = 1\\n mode = all\\n heuristic = creationToken\\n[bundle \"a\"]\\n uri = file://%s/one\\n creationToken = 1\\n' $A >list
             $ git clone -q --bundle-uri=file://$A/list $URL got
             up$ git bundle create -q ../two main~3..main && printf '[bundle \"b\"]\\n uri = file://%s/two\\n creationToken = 2\\n' $A >>../list
             got$ git fetch && git for-each-ref refs/bundles",
            "up$ git bundle create -q ../b main
             reader$ git -c fetch.bundleURI=$A/b fetch
             reader$ git for-each-ref refs/bundles",
            "reader$ git -c fetch.bundleURI=$A/nothing fetch",
            "$ git -c transfer.bundleURI=true clone -q $URL got",
            "$ git -c transfer.bundleURI=true clone $URL got",
            "$ git -c transfer.bundleURI=true clone -q --mirror $URL got",
            "$ git -c transfer.bundleURI=true clone -q --depth 1 $URL got",
            "$ git -c transfer.bundleURI=true clone -q --filter=blob:none $URL got",
            "$ git -c transfer.bundleURI=true -c protocol.version=0 clone -q $URL got",
            "$ git -c transfer.bundleURI=true ls-remote $URL",
            "reader$ git -c transfer.bundleURI=true fetch",
            "reader$ git -c transfer.bundleURI=true pull -q",
            "up$ git -c transfer.bundleURI=true push -q origin main newest",
        ],
    );
}
