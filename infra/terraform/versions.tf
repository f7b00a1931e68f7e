# Providers. State is local until a backend is named: see README.md.

terraform {
  required_version = ">= 1.9"

  required_providers {
    cloudflare = {
      source  = "cloudflare/cloudflare"
      version = "~> 5.19"
    }
    upstash = {
      source  = "upstash/upstash"
      version = "~> 2.1"
    }
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = "~> 2.38"
    }
    random = {
      source  = "hashicorp/random"
      version = "~> 3.7"
    }
  }
}

# CLOUDFLARE_API_TOKEN
provider "cloudflare" {}

# UPSTASH_EMAIL and UPSTASH_API_KEY
provider "upstash" {}

provider "kubernetes" {
  config_path    = var.region == null ? null : pathexpand(var.region.kubeconfig)
  config_context = var.region == null ? null : var.region.context
}
